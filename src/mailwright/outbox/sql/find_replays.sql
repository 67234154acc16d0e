-- Finds the messages that already have these deduplication keys.
SELECT m.tenant_id, m.dedupe_key, m.outbox_id, m.request_id, m.body_digest, d.status
FROM rows(:wanted: tenant_id bigint, dedupe_key text) AS w
JOIN messages AS m ON m.tenant_id = w.tenant_id AND m.dedupe_key = w.dedupe_key
JOIN deliveries AS d ON d.message_key = m.id
