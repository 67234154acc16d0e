SELECT s.email
FROM rows(:people: email text) AS p
CROSS JOIN suppressions AS s
WHERE s.tenant_id = :tenant_id AND s.email = p.email AND s.list_key = 'general' AND s.source = CAST(:erasure AS text)
  AND NOT EXISTS (SELECT 1 FROM contacts AS c WHERE c.tenant_id = s.tenant_id AND c.email = s.email)
