-- Locks contacts always in the same order, so that two processes that change the same contacts cannot deadlock.
SELECT c.id, c.tenant_id, c.email
FROM rows(:contacts: tenant_id bigint, email text) AS p
JOIN contacts AS c ON c.tenant_id = p.tenant_id AND c.email = p.email
ORDER BY c.tenant_id, c.email
for update
