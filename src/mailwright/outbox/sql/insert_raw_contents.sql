-- Stores each content once. Storing it again renews its time, so that retention does not delete a content that is being
-- used again.
INSERT INTO raw_contents (tenant_id, digest, created_at, content)
SELECT n.tenant_id, n.digest, CAST(:now AS bigint), n.content
FROM rows(:contents: tenant_id bigint, digest text, content bytea) AS n
WHERE true
ON CONFLICT (tenant_id, digest) DO UPDATE SET created_at = excluded.created_at
