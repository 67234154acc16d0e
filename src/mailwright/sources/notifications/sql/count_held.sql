-- How many rows a worker holds.
SELECT COUNT(*) AS held
FROM notification_links AS l
WHERE l.queue = :queue AND l.state = 'sending' AND l.locked_by = :worker
