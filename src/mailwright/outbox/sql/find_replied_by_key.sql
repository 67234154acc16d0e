-- Finds the messages of all tenants with these deduplication keys. CROSS JOIN makes SQLite start with the few keys and
-- search the index of keys, which begins with the tenant.
SELECT m.id, m.outbox_id, m.tenant_id, m.to_email, m.is_bulk, m.payload, t.reply_forward_to
FROM rows(:wanted: dedupe_key text) AS w
CROSS JOIN tenants AS t
CROSS JOIN messages AS m
WHERE m.tenant_id = t.id AND m.dedupe_key = w.dedupe_key
