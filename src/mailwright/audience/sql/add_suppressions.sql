-- Whoever is on the list stays there as they came: the first reason is the one that people look for.
INSERT INTO suppressions (tenant_id, email, list_key, reason, source, created_at)
SELECT CAST(:tenant_id AS bigint), s.email, CAST(:list_key AS text), CAST(:reason AS text), CAST(:source AS text),
  CAST(:now AS bigint)
FROM rows(:emails: email text) AS s
WHERE true
-- Always in the same order: two processes that add the same people would otherwise wait for each other.
ORDER BY s.email
ON CONFLICT (tenant_id, email, list_key) DO NOTHING
RETURNING email
