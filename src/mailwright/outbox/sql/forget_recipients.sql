-- Delete the recipients of messages that retention deleted long ago.
DELETE FROM deleted_messages
WHERE (outbox_id, to_email) IN (
  SELECT outbox_id, to_email FROM deleted_messages WHERE deleted_at < :deleted_before ORDER BY deleted_at LIMIT :most
)
