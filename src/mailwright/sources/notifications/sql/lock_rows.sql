-- Lock rows that are unchanged since they were read: of two workers, the second finds the row changed.
-- LOWER and TRIM are needed because the producer may write the status in another case or with spaces. They also keep
-- SQLite from scanning the index on the status once per row: the primary key finds each row directly.
UPDATE queue.open_event_notifications
SET locked_by = :worker, locked_at = :at
FROM rows(:wanted: notification_id bigint, attempts int, locked_at text) AS w
WHERE open_event_notifications.notification_id = w.notification_id
  AND LOWER(TRIM(open_event_notifications.fanout_status)) = 'pending'
  AND COALESCE(open_event_notifications.fanout_attempts, 0) = w.attempts
  AND COALESCE(open_event_notifications.locked_at, '') = w.locked_at
RETURNING open_event_notifications.notification_id
