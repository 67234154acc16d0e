-- The same rule as that of the claim and of the mark: without a list it is transactional mail, which only `*` stops.
SELECT DISTINCT s.email
FROM rows(:emails: email text) AS e
CROSS JOIN suppressions AS s  -- begins with the few who are looked for, whatever the planner thinks of them
WHERE s.tenant_id = :tenant_id AND s.email = e.email
  AND (s.list_key = '*'
    OR (CAST(:list_key AS text) IS NOT NULL AND s.list_key IN ('general', CAST(:list_key AS text))))
