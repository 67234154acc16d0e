-- Reset ended rows to pending. Sent rows are not included.
-- lock_rows.sql explains LOWER and TRIM.
UPDATE queue.open_event_notifications
SET fanout_status = 'pending', fanout_attempts = 0, error = NULL, locked_by = NULL, locked_at = NULL
FROM rows(:wanted: notification_id bigint) AS w
WHERE open_event_notifications.notification_id = w.notification_id
  AND LOWER(TRIM(open_event_notifications.fanout_status)) IN ('failed', 'skipped', 'expired')
RETURNING open_event_notifications.notification_id
