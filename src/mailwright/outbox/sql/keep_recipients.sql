-- Keeps the recipients of messages that were handed to a provider, before the messages are deleted.
INSERT INTO deleted_messages (outbox_id, to_email, tenant_id, is_copy, provider, created_at, deleted_at)
SELECT m.outbox_id, m.to_email, m.tenant_id, 0, d.provider, m.created_at, CAST(:now AS bigint)
FROM rows(:keys: message_key bigint) AS k
JOIN messages AS m ON m.id = k.message_key
JOIN deliveries AS d ON d.message_key = m.id
WHERE d.attempted_at IS NOT NULL
ON CONFLICT (outbox_id, to_email) DO NOTHING
