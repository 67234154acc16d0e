-- End links whose results are recorded. A row that another worker has locked meanwhile is left to that worker.
UPDATE notification_links
SET state = e.state
FROM rows(:ended: id bigint, locked_by text, locked_at text, state text) AS e
WHERE notification_links.id = e.id AND notification_links.state = 'sending'
  AND notification_links.locked_by = e.locked_by AND notification_links.locked_at = e.locked_at
