-- Takes rows that are as they were when they were looked at: of two workers that want one, the second finds it changed.
-- Rows are found by their numbers: of an index on the status, which SQLite would rather walk for every row, nothing
-- here can make use.
UPDATE queue.open_event_notifications
SET locked_by = :worker, locked_at = :at
FROM rows(:wanted: notification_id bigint, attempts int, locked_at text) AS w
WHERE open_event_notifications.notification_id = w.notification_id
  AND COALESCE(open_event_notifications.fanout_status, '') = 'pending'
  AND COALESCE(open_event_notifications.fanout_attempts, 0) = w.attempts
  AND COALESCE(open_event_notifications.locked_at, '') = w.locked_at
RETURNING open_event_notifications.notification_id
