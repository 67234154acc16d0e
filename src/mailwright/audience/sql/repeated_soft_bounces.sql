-- People of whom so many mails bounced softly within so long a time, whenever each of them was told: when that was first
-- true, and when it last was. Only stretches count that hold one of the bounces that were told just now, and only what
-- happened after the person was last made active.
SELECT counted.tenant_id, counted.email, min(counted.at) AS first_at, max(counted.at) AS last_at
FROM (
  SELECT DISTINCT r.tenant_id, r.email, r.at, COALESCE(c.status_updated_at, -1) AS active_since
  FROM rows(:told: tenant_id bigint, email text, at bigint) AS t
  CROSS JOIN reports AS r  -- begins with the few who are looked for, whatever the planner thinks of them
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
