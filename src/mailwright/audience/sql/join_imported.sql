-- Whoever was ever on the list stays as they are: an import puts nobody back whom it was left by.
INSERT INTO subscriptions (tenant_id, contact_key, list_key, subscribed_at, source)
SELECT c.tenant_id, c.id, CAST(:list_key AS text), CAST(:now AS bigint), CAST(:source AS text)
FROM rows(:people: email text) AS p
CROSS JOIN contacts AS c
WHERE c.tenant_id = :tenant_id AND c.email = p.email
ORDER BY c.id
ON CONFLICT (contact_key, list_key) DO NOTHING
