INSERT INTO raw_contents (tenant_id, digest, created_at, content)
SELECT n.tenant_id, n.digest, CAST(:now AS bigint), n.content
FROM rows(:contents: tenant_id bigint, digest text, content bytea) AS n
WHERE true
ON CONFLICT (tenant_id, digest) DO NOTHING
