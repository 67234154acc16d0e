-- Uses the same rule as the claim and the begin of an attempt. A null list means transactional email, which only a
-- suppression with the scope `*` stops.
SELECT e.email
FROM rows(:emails: email text) AS e
-- One lookup per row: without statistics of a young table, the planner would compare all rows with all rows.
WHERE (
  SELECT min(s.list_key) FROM suppressions AS s
  WHERE s.tenant_id = :tenant_id AND s.email = e.email
    AND (s.list_key = '*'
      OR (CAST(:list_key AS text) IS NOT NULL AND s.list_key IN ('general', CAST(:list_key AS text))))
) IS NOT NULL
