-- The contacts of addresses.
SELECT c.id, c.email
FROM rows(:people: email text) AS p
JOIN contacts AS c ON c.tenant_id = CAST(:tenant_id AS bigint) AND c.email = p.email AND c.deleted_at IS NULL
