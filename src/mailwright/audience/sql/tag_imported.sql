INSERT INTO contact_tags (contact_key, tag, tenant_id)
SELECT c.id, t.tag, c.tenant_id
FROM rows(:tags: email text, tag text) AS t
CROSS JOIN contacts AS c
WHERE c.tenant_id = :tenant_id AND c.email = t.email
ORDER BY c.id, t.tag
ON CONFLICT (contact_key, tag) DO NOTHING
