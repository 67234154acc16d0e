UPDATE notification_links SET noted = n.noted
FROM rows(:notes: id bigint, noted text) AS n
WHERE notification_links.id = n.id AND notification_links.state = 'sending'
