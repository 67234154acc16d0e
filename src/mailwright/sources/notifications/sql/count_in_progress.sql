SELECT l.subscription_id, COUNT(*) AS in_progress
FROM rows(:wanted: queue text, subscription_id bigint) AS w
JOIN notification_links AS l ON l.queue = w.queue AND l.subscription_id = w.subscription_id AND l.state = 'sending'
GROUP BY l.subscription_id
