-- Also stores the unsubscribe of a contact who was never subscribed, so that a later import does not subscribe them.
INSERT INTO subscriptions (tenant_id, contact_key, list_key, unsubscribed_at, source)
SELECT f.tenant_id, c.id, f.list_key, f.at, f.source
FROM rows(:facts: tenant_id bigint, email text, list_key text, at bigint, source text) AS f
JOIN contacts AS c ON c.tenant_id = f.tenant_id AND c.email = f.email
WHERE true
ORDER BY c.id, f.list_key
ON CONFLICT (contact_key, list_key) DO UPDATE
SET unsubscribed_at = excluded.unsubscribed_at, source = excluded.source
WHERE subscriptions.unsubscribed_at IS NULL
