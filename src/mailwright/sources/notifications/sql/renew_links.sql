UPDATE notification_links
SET locked_at = :at
FROM rows(:held: id bigint, locked_by text, locked_at text) AS h
WHERE notification_links.id = h.id AND notification_links.locked_by = h.locked_by
  AND notification_links.locked_at = h.locked_at
