SELECT p.email
FROM rows(:people: email text) AS p
-- Each is looked for by itself: a planner that knows nothing of a young table would rather compare everyone with everyone.
WHERE (
  SELECT s.id FROM suppressions AS s
  WHERE s.tenant_id = :tenant_id AND s.email = p.email AND s.list_key = 'general' AND s.source = CAST(:erasure AS text)
) IS NOT NULL
  AND (SELECT c.id FROM contacts AS c WHERE c.tenant_id = :tenant_id AND c.email = p.email) IS NULL
