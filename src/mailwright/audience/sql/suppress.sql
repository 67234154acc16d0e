-- Facts may be reported late. A complaint replaces a bounce, never the reverse. Otherwise the fact with the earliest time
-- determines the reason, regardless of the order in which they arrive. An operator's entry is never replaced, nor is an
-- unsubscribe from all messages, which only a program adds. The entry for all messages of an unfinished erasure ends with
-- it, so every fact replaces it. A later fact from another source confirms an unsubscribe by a visit, which keeps its
-- time, and replaces the no of an imported file, so that only the contact lifts what they decided themselves.
INSERT INTO suppressions (tenant_id, email, list_key, reason, source, created_at)
SELECT f.tenant_id, f.email, f.list_key, f.reason, f.source, f.at
FROM rows(:facts: tenant_id bigint, email text, list_key text, reason text, source text, at bigint) AS f
WHERE true
ORDER BY f.tenant_id, f.email, f.list_key
ON CONFLICT (tenant_id, email, list_key) DO UPDATE
SET reason = excluded.reason, source = excluded.source,
  created_at = CASE WHEN suppressions.source = 'visit' AND suppressions.created_at < excluded.created_at
    THEN suppressions.created_at ELSE excluded.created_at END
WHERE suppressions.source = 'erasure' AND suppressions.list_key = '*'
  OR suppressions.reason IN ('bounce', 'soft_bounces') AND excluded.reason NOT IN ('bounce', 'soft_bounces')
  OR (suppressions.reason IN ('bounce', 'soft_bounces') AND suppressions.list_key = '*'
    OR suppressions.reason = 'complaint' AND suppressions.list_key = '*' AND excluded.reason = 'complaint'
    OR suppressions.reason = 'unsubscribed' AND suppressions.list_key <> '*')
  AND (excluded.created_at < suppressions.created_at
      AND (suppressions.source LIKE 'import:%' OR excluded.source NOT LIKE 'import:%')
    OR (excluded.created_at = suppressions.created_at AND excluded.reason < suppressions.reason)
    OR (suppressions.source = 'visit' AND excluded.source <> 'visit')
    OR (suppressions.source LIKE 'import:%' AND excluded.source NOT LIKE 'import:%'))
