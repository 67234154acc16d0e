-- Removes only suppressions from the contact's own unsubscribes. An operator's entry, a bounce or a complaint stays.
DELETE FROM suppressions
WHERE id IN (
  SELECT s.id
  FROM rows(:contacts: tenant_id bigint, email text) AS p
  CROSS JOIN suppressions AS s  -- forces the planner to start with the few given rows
  WHERE s.tenant_id = p.tenant_id AND s.email = p.email AND s.list_key = :list_key AND s.list_key <> '*'
    AND s.reason = 'unsubscribed'
)
