SELECT s.email
FROM rows(:emails: email text) AS e
JOIN suppressions AS s ON s.tenant_id = :tenant_id AND s.email = e.email
