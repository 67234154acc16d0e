-- Record when the subscribers were last notified.
UPDATE queue.subscriptions
SET last_notified_at = s.notified_at
FROM rows(:sent: subscription_id bigint, notified_at text) AS s
WHERE subscriptions.subscription_id = s.subscription_id
