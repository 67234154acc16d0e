-- Keeps the recipients in Cc and Bcc of messages that were handed to a provider, before the bodies are deleted.
INSERT INTO deleted_messages (outbox_id, to_email, tenant_id, is_copy, provider, created_at, deleted_at)
SELECT m.outbox_id, k.email, m.tenant_id, 1, d.provider, m.created_at, CAST(:now AS bigint)
FROM rows(:copies: message_key bigint, email text) AS k
JOIN messages AS m ON m.id = k.message_key
JOIN deliveries AS d ON d.message_key = m.id
WHERE d.attempted_at IS NOT NULL AND m.to_email <> k.email
ON CONFLICT (outbox_id, to_email) DO NOTHING
