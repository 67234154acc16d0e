-- People of whom so many soft bounces lie within so long a time, whenever each of them was told: when that was first
-- true, and when it last was.
SELECT tenant_id, email, min(at) AS first_at, max(at) AS last_at
FROM (
  SELECT r.tenant_id, r.email, r.at,
    lag(r.at, CAST(:others AS int)) OVER (PARTITION BY r.tenant_id, r.email ORDER BY r.at) AS began_at
  FROM rows(:people: tenant_id bigint, email text) AS p
  CROSS JOIN reports AS r  -- begins with the few who are looked for, whatever the planner thinks of them
  WHERE r.tenant_id = p.tenant_id AND r.email = p.email AND r.verdict = 'soft_bounce'
) AS bounces
WHERE at - began_at <= :within
GROUP BY tenant_id, email
