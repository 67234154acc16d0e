-- Record sent notifications in the timelines of their subscriptions.
INSERT INTO queue.subscription_events (subscription_id, event_type, section_status_snapshot, payload, created_at)
SELECT s.subscription_id, 'notify_sent', s.section_status, s.payload, s.created_at
FROM rows(:sent: subscription_id bigint, section_status text, payload text, created_at text) AS s
WHERE true
