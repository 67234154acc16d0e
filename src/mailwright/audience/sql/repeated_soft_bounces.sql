-- Finds contacts with :enough soft-bounced messages within the time :within, and when they first and last reached this
-- limit. A period counts only if it contains one of the given bounces, which were just stored. Bounces before the
-- contact's last activation do not count.
SELECT counted.tenant_id, counted.email, min(counted.at) AS first_at, max(counted.at) AS last_at
FROM (
  SELECT DISTINCT r.tenant_id, r.email, r.at, COALESCE(c.status_updated_at, -1) AS active_since
  FROM rows(:bounces: tenant_id bigint, email text, at bigint) AS t
  CROSS JOIN reports AS r  -- forces the planner to start with the few given rows
  LEFT JOIN contacts AS c ON c.tenant_id = t.tenant_id AND c.email = t.email AND c.status = 'active'
  WHERE r.tenant_id = t.tenant_id AND r.email = t.email AND r.verdict = 'soft_bounce'
    AND r.at BETWEEN t.at AND t.at + :within AND t.at > COALESCE(c.status_updated_at, -1)
) AS counted
WHERE (
  SELECT count(DISTINCT o.message_key)
  FROM reports AS o
  WHERE o.tenant_id = counted.tenant_id AND o.email = counted.email AND o.verdict = 'soft_bounce'
    AND o.at BETWEEN counted.at - :within AND counted.at AND o.at > counted.active_since
) >= CAST(:enough AS int)
GROUP BY counted.tenant_id, counted.email
