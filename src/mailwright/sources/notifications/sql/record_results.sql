-- The only statement that writes results. A worker that lost the lock, or has already written, changes nothing.
-- lock_rows.sql explains LOWER and TRIM.
UPDATE queue.open_event_notifications
SET fanout_status = r.fanout_status, fanout_attempts = r.attempts,
    last_attempt_at = COALESCE(r.attempted_at, open_event_notifications.last_attempt_at),
    error = COALESCE(r.error, open_event_notifications.error), locked_by = NULL, locked_at = NULL
FROM rows(:results: notification_id bigint, locked_by text, locked_at text, fanout_status text, attempts int,
  attempted_at text, error text) AS r
WHERE open_event_notifications.notification_id = r.notification_id
  AND LOWER(TRIM(open_event_notifications.fanout_status)) = 'pending'
  AND open_event_notifications.locked_by = r.locked_by
  AND open_event_notifications.locked_at = r.locked_at
RETURNING open_event_notifications.notification_id
