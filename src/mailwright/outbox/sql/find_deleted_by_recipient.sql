-- Finds the deleted messages to this address that this provider had before the report, the latest one last.
SELECT w.provider, w.email, w.at, x.tenant_id, x.to_email
FROM rows(:wanted: provider text, email text, at bigint) AS w
JOIN deleted_messages AS x ON x.to_email = w.email AND x.provider = w.provider AND x.created_at <= w.at
ORDER BY x.outbox_id
