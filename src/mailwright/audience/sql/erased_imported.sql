SELECT p.email
FROM rows(:contacts: email text) AS p
-- One lookup per row: without statistics of a young table, the planner would compare all rows with all rows.
WHERE (
  SELECT s.id FROM suppressions AS s
  WHERE s.tenant_id = :tenant_id AND s.email = p.email AND s.list_key = 'general' AND s.source = CAST(:erasure AS text)
) IS NOT NULL
  AND (SELECT c.id FROM contacts AS c WHERE c.tenant_id = :tenant_id AND c.email = p.email) IS NULL
