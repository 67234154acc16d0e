-- Whoever is on the list stays there as they came: the first reason is the one that people look for.
INSERT INTO suppressions (tenant_id, email, reason, source, created_at)
SELECT CAST(:tenant_id AS bigint), s.email, CAST(:reason AS text), CAST(:source AS text), CAST(:now AS bigint)
FROM rows(:emails: email text) AS s
WHERE true
ON CONFLICT (tenant_id, email) DO NOTHING
RETURNING email
