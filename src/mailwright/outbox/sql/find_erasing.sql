-- Addresses whose erasure has begun and is not finished.
SELECT e.tenant_id, e.email
FROM rows(:addresses: tenant_id bigint, email text) AS p
CROSS JOIN erasures AS e
WHERE e.tenant_id = p.tenant_id AND e.email = p.email
