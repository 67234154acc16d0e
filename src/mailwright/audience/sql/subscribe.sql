-- Whoever is on the list stays there as they came.
INSERT INTO subscriptions (tenant_id, contact_key, list_key, subscribed_at, source)
SELECT f.tenant_id, c.id, f.list_key, f.at, f.source
FROM rows(:people: tenant_id bigint, email text, list_key text, at bigint, source text) AS f
JOIN contacts AS c ON c.tenant_id = f.tenant_id AND c.email = f.email
WHERE true
ORDER BY c.id, f.list_key
ON CONFLICT (contact_key, list_key) DO UPDATE
SET subscribed_at = excluded.subscribed_at, unsubscribed_at = NULL, source = excluded.source
WHERE subscriptions.unsubscribed_at IS NOT NULL
