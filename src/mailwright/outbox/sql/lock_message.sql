-- Reads a message and locks it until the transaction ends, so that it does not change while the caller decides.
SELECT m.outbox_id, d.message_key, d.tenant_id, d.status, d.attempts, d.error_code, d.attempted_at, m.expires_at,
  CASE WHEN m.payload = '{}' THEN 1 ELSE 0 END AS is_emptied
FROM messages AS m
JOIN deliveries AS d ON d.message_key = m.id
WHERE m.outbox_id = :outbox_id
  AND (CAST(:tenant_id AS bigint) IS NULL OR m.tenant_id = CAST(:tenant_id AS bigint))
for update
