-- Finds the recipients in Cc and Bcc of messages whose bodies were deleted.
SELECT m.id AS message_key, x.to_email
FROM rows(:wanted: message_key bigint) AS w
JOIN messages AS m ON m.id = w.message_key
JOIN deleted_messages AS x ON x.outbox_id = m.outbox_id AND x.is_copy = 1
