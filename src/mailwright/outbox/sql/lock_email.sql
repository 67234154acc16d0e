-- Reads all messages of the email that a message belongs to, and locks them until the transaction ends. The messages of an
-- email to several recipients were accepted in one request and share their content.
WITH given AS (
  SELECT id, tenant_id, content_digest, request_id, created_at
  FROM messages
  WHERE outbox_id = :outbox_id AND tenant_id = :tenant_id
),
email AS (
  SELECT id FROM given
  UNION
  SELECT m.id
  FROM given
  JOIN messages AS m ON m.tenant_id = given.tenant_id AND m.content_digest = given.content_digest
    AND m.request_id = given.request_id AND m.created_at = given.created_at
)
SELECT d.message_key, d.tenant_id, d.status, m.expires_at
FROM messages AS m
JOIN deliveries AS d ON d.message_key = m.id
WHERE m.id IN (SELECT id FROM email)
ORDER BY d.message_key
for update
