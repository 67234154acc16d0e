UPDATE notification_links SET state = 'closed'
FROM rows(:closed: id bigint) AS c
WHERE notification_links.id = c.id
