-- The same rule as that of the claim and of the mark: without a list it is transactional mail, which only `*` stops.
SELECT e.email
FROM rows(:emails: email text) AS e
-- Each is looked for by itself: a planner that knows nothing of a young table would rather compare everyone with everyone.
WHERE (
  SELECT min(s.list_key) FROM suppressions AS s
  WHERE s.tenant_id = :tenant_id AND s.email = e.email
    AND (s.list_key = '*'
      OR (CAST(:list_key AS text) IS NOT NULL AND s.list_key IN ('general', CAST(:list_key AS text))))
) IS NOT NULL
