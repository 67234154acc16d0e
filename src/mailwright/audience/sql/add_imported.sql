-- Known contacts are not changed here. Erased contacts are not stored again.
INSERT INTO contacts (contact_id, tenant_id, email, name, locale, timezone, attributes, created_at)
SELECT p.contact_id, CAST(:tenant_id AS bigint), p.email, p.name, p.locale, p.timezone, p.attributes, CAST(:now AS bigint)
FROM rows(:contacts: contact_id text, email text, name text, locale text, timezone text, attributes text) AS p
-- One lookup per row: without statistics of a young table, the planner would compare all rows with all rows.
WHERE (
  SELECT s.id FROM suppressions AS s
  WHERE s.tenant_id = :tenant_id AND s.email = p.email AND s.list_key = 'general' AND s.source = CAST(:erasure AS text)
) IS NULL
-- Insert always in the same order, so that two processes that add the same contacts cannot deadlock.
ORDER BY p.email
ON CONFLICT (tenant_id, email) DO NOTHING
