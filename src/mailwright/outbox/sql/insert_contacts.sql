-- Whoever is written to is a contact. Known ones stay as they are: an API call never revives or renames anyone.
INSERT INTO contacts (contact_id, tenant_id, email, name, created_at)
SELECT c.contact_id, c.tenant_id, c.email, c.name, CAST(:now AS bigint)
FROM rows(:contacts: contact_id text, tenant_id bigint, email text, name text) AS c
WHERE NOT EXISTS (SELECT 1 FROM contacts AS k WHERE k.tenant_id = c.tenant_id AND k.email = c.email)
-- Always in the same order: two processes that add the same people would otherwise wait for each other.
ORDER BY c.tenant_id, c.email
ON CONFLICT (tenant_id, email) DO NOTHING
