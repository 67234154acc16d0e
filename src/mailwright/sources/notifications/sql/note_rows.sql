-- State in locked rows what happens to their messages. The lock stays. Writing the same note again changes nothing,
-- because it has the number of all attempts.
-- lock_rows.sql explains LOWER and TRIM.
UPDATE queue.open_event_notifications
SET fanout_attempts = r.attempts, error = r.error,
    last_attempt_at = COALESCE(r.attempted_at, open_event_notifications.last_attempt_at)
FROM rows(:notes: notification_id bigint, locked_by text, locked_at text, attempts int, attempted_at text, error text) AS r
WHERE open_event_notifications.notification_id = r.notification_id
  AND LOWER(TRIM(open_event_notifications.fanout_status)) = 'pending'
  AND open_event_notifications.locked_by = r.locked_by
  AND open_event_notifications.locked_at = r.locked_at
RETURNING open_event_notifications.notification_id
