-- Stores every recipient as a contact. Existing contacts stay as they are, so a request never restores or renames one.
INSERT INTO contacts (contact_id, tenant_id, email, name, created_at)
SELECT c.contact_id, c.tenant_id, c.email, c.name, CAST(:now AS bigint)
FROM rows(:contacts: contact_id text, tenant_id bigint, email text, name text) AS c
WHERE NOT EXISTS (SELECT 1 FROM contacts AS k WHERE k.tenant_id = c.tenant_id AND k.email = c.email)
-- Insert always in the same order, so that two processes that add the same contacts do not deadlock.
ORDER BY c.tenant_id, c.email
ON CONFLICT (tenant_id, email) DO NOTHING
