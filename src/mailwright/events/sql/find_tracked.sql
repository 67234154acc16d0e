-- Loads the facts that decide whether an open or click of a message is recorded. CROSS JOIN fixes the join order for
-- SQLite.
SELECT m.outbox_id, m.campaign_key, c.consents_to_tracking, t.tracking, COALESCE(d.sent_at, d.attempted_at) AS attempted_at
FROM rows(:wanted: outbox_id text) AS wanted
CROSS JOIN messages AS m
JOIN deliveries AS d ON d.message_key = m.id
JOIN tenants AS t ON t.id = m.tenant_id
JOIN contacts AS c ON c.id = m.contact_key
WHERE m.outbox_id = wanted.outbox_id AND c.deleted_at IS NULL
