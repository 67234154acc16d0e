-- Addresses that were erased and have not subscribed again since, or are being erased.
SELECT s.tenant_id, s.email
FROM rows(:contacts: tenant_id bigint, email text) AS p
CROSS JOIN suppressions AS s
WHERE s.tenant_id = p.tenant_id AND s.email = p.email AND s.list_key = 'general' AND s.source = 'erasure'
  AND (
    NOT EXISTS (SELECT 1 FROM contacts AS c WHERE c.tenant_id = s.tenant_id AND c.email = s.email)
    OR EXISTS (SELECT 1 FROM erasures AS e WHERE e.tenant_id = s.tenant_id AND e.email = s.email)
  )
