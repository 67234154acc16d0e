-- Finds the imported addresses that receive no email, or no bulk email of the list, with the reason of the widest
-- suppression.
SELECT p.email, s.list_key, s.reason
FROM rows(:contacts: email text) AS p
CROSS JOIN suppressions AS s
-- One lookup per row: without statistics of a young table, the planner would compare all rows with all rows.
WHERE s.id = (
  SELECT k.id FROM suppressions AS k
  WHERE k.tenant_id = :tenant_id AND k.email = p.email
    AND k.list_key IN ('*', 'general', CAST(:list_key AS text))
  ORDER BY CASE k.list_key WHEN '*' THEN 0 WHEN 'general' THEN 1 ELSE 2 END
  LIMIT 1
)
