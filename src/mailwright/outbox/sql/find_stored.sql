-- Which of these messages were stored, where not all were.
SELECT m.outbox_id FROM rows(:wanted: outbox_id text, tenant_id bigint) AS w JOIN messages AS m ON m.outbox_id = w.outbox_id
