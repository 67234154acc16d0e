-- Deletes the sends of messages that nobody received. Without their deliveries they would count as received.
DELETE FROM bulk_sends
WHERE (tenant_id, email, message_key) IN (
  SELECT m.tenant_id, m.to_email, m.id
  FROM rows(:keys: message_key bigint) AS k
  JOIN messages AS m ON m.id = k.message_key
  JOIN deliveries AS d ON d.message_key = m.id
  WHERE d.status IN ('FAILED', 'CANCELLED') AND d.in_doubt_since IS NULL
)
