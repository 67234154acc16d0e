-- An existing entry keeps its first reason, but a decision of a person replaces a bounce, so that it stays when the
-- bounce is removed. The entry for all messages of an unfinished erasure ends with it, so it is replaced, and replaces
-- nothing.
INSERT INTO suppressions (tenant_id, email, list_key, reason, source, created_at)
SELECT CAST(:tenant_id AS bigint), s.email, CAST(:list_key AS text), CAST(:reason AS text), CAST(:source AS text),
  CAST(:now AS bigint)
FROM rows(:emails: email text) AS s
WHERE true
-- Insert always in the same order, so that two processes that add the same addresses cannot deadlock.
ORDER BY s.email
ON CONFLICT (tenant_id, email, list_key) DO UPDATE
SET reason = excluded.reason, source = excluded.source, created_at = excluded.created_at
WHERE suppressions.source = 'erasure' AND suppressions.list_key = '*'
  OR suppressions.reason IN ('bounce', 'soft_bounces') AND excluded.reason NOT IN ('bounce', 'soft_bounces')
    AND excluded.source <> 'erasure'
RETURNING email
