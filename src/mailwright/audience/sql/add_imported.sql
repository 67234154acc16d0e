-- Whoever is known stays as they are, here. Whoever asked to be erased is not stored again.
INSERT INTO contacts (contact_id, tenant_id, email, name, locale, timezone, attributes, created_at)
SELECT p.contact_id, CAST(:tenant_id AS bigint), p.email, p.name, p.locale, p.timezone, p.attributes, CAST(:now AS bigint)
FROM rows(:people: contact_id text, email text, name text, locale text, timezone text, attributes text) AS p
-- Each is looked for by itself: a planner that knows nothing of a young table would rather compare everyone with everyone.
WHERE (
  SELECT s.id FROM suppressions AS s
  WHERE s.tenant_id = :tenant_id AND s.email = p.email AND s.list_key = 'general' AND s.source = CAST(:erasure AS text)
) IS NULL
-- Always in the same order: two processes that add the same people would otherwise wait for each other.
ORDER BY p.email
ON CONFLICT (tenant_id, email) DO NOTHING
