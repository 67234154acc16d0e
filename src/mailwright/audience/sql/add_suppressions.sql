-- An existing entry keeps its first reason.
INSERT INTO suppressions (tenant_id, email, list_key, reason, source, created_at)
SELECT CAST(:tenant_id AS bigint), s.email, CAST(:list_key AS text), CAST(:reason AS text), CAST(:source AS text),
  CAST(:now AS bigint)
FROM rows(:emails: email text) AS s
WHERE true
-- Insert always in the same order, so that two processes that add the same addresses cannot deadlock.
ORDER BY s.email
ON CONFLICT (tenant_id, email, list_key) DO NOTHING
RETURNING email
