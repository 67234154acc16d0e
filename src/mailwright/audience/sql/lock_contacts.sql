-- Always in the same order: two processes that change the same people would otherwise wait for each other.
SELECT c.id, c.tenant_id, c.email
FROM rows(:people: tenant_id bigint, email text) AS p
JOIN contacts AS c ON c.tenant_id = p.tenant_id AND c.email = p.email
ORDER BY c.tenant_id, c.email
for update
