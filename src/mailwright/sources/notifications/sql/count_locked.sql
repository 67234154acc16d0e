-- Count the rows that a worker has locked.
SELECT COUNT(*) AS locked
FROM notification_links AS l
WHERE l.queue = :queue AND l.state = 'sending' AND l.locked_by = :worker
