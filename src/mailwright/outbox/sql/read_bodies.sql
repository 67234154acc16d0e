-- Reads the bodies of messages, to export them before they are deleted.
SELECT m.id, m.outbox_id, m.to_email, COALESCE(d.subject, m.subject) AS subject, m.created_at, m.payload, m.content_digest
FROM rows(:keys: id bigint) AS k
JOIN messages AS m ON m.id = k.id
JOIN deliveries AS d ON d.message_key = m.id
