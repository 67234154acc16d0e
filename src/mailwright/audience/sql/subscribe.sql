-- An existing subscription stays as it is; a pending one no longer needs a confirmation.
INSERT INTO subscriptions (tenant_id, contact_key, list_key, subscribed_at, source)
SELECT f.tenant_id, c.id, f.list_key, f.at, f.source
FROM rows(:contacts: tenant_id bigint, email text, list_key text, at bigint, source text) AS f
JOIN contacts AS c ON c.tenant_id = f.tenant_id AND c.email = f.email
WHERE true
ORDER BY c.id, f.list_key
ON CONFLICT (contact_key, list_key) DO UPDATE
SET subscribed_at = excluded.subscribed_at, unsubscribed_at = NULL, source = excluded.source, is_pending = false
WHERE subscriptions.unsubscribed_at IS NOT NULL OR subscriptions.is_pending
