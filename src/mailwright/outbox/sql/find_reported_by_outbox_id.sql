-- The messages that reports name by our own ID.
SELECT m.outbox_id, m.id AS message_key, m.tenant_id, m.to_email
FROM rows(:wanted: outbox_id text) AS w
JOIN messages AS m ON m.outbox_id = w.outbox_id
