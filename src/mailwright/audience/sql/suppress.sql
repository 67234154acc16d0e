-- For what happened at a time of its own and may be told late: of several such reasons the earliest stays, in whatever
-- order they come. An operator's own words are never replaced.
INSERT INTO suppressions (tenant_id, email, list_key, reason, source, created_at)
SELECT f.tenant_id, f.email, f.list_key, f.reason, f.source, f.at
FROM rows(:facts: tenant_id bigint, email text, list_key text, reason text, source text, at bigint) AS f
WHERE true
ORDER BY f.tenant_id, f.email, f.list_key
ON CONFLICT (tenant_id, email, list_key) DO UPDATE
SET reason = excluded.reason, source = excluded.source, created_at = excluded.created_at
WHERE suppressions.reason IN ('bounce', 'soft_bounces', 'complaint', 'unsubscribed')
  AND (excluded.created_at < suppressions.created_at
    OR (excluded.created_at = suppressions.created_at AND excluded.reason < suppressions.reason))
