-- Unlock rows without counting an attempt.
-- lock_rows.sql explains LOWER and TRIM.
UPDATE queue.open_event_notifications
SET locked_by = NULL, locked_at = NULL
FROM rows(:held: notification_id bigint, locked_by text, locked_at text) AS h
WHERE open_event_notifications.notification_id = h.notification_id
  AND LOWER(TRIM(open_event_notifications.fanout_status)) = 'pending'
  AND open_event_notifications.locked_by = h.locked_by
  AND open_event_notifications.locked_at = h.locked_at
RETURNING open_event_notifications.notification_id
