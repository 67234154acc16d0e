-- Finds the addresses for whom an imported file says that they want no email of a list, or no bulk email (`general`).
SELECT s.email, s.list_key, s.source
FROM rows(:contacts: email text) AS p
CROSS JOIN suppressions AS s  -- forces the planner to start with the few given rows
WHERE s.tenant_id = :tenant_id AND s.email = p.email AND s.list_key <> '*'
  AND s.reason = 'unsubscribed' AND s.source LIKE 'import:%'
ORDER BY s.email, s.list_key
