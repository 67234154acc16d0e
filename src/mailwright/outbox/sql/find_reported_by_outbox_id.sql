-- Finds messages by our own ID, and whether each still waits for its first attempt. An attempt is recorded before the
-- provider is called. A report about a message without an attempt therefore shows that the database was restored.
SELECT m.outbox_id, m.id AS message_key, m.tenant_id, m.to_email, d.provider,
  COALESCE(d.sent_at, d.attempted_at) AS sent_at,
  CASE WHEN d.attempted_at IS NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED') THEN 1 ELSE 0 END AS was_never_sent
FROM rows(:wanted: outbox_id text) AS w
JOIN messages AS m ON m.outbox_id = w.outbox_id
JOIN deliveries AS d ON d.message_key = m.id
