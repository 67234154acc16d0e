SELECT x.outbox_id, x.tenant_id, x.to_email, x.is_copy, x.provider
FROM rows(:wanted: outbox_id text) AS w
JOIN deleted_messages AS x ON x.outbox_id = w.outbox_id
ORDER BY x.outbox_id, x.is_copy
