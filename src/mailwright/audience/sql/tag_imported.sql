INSERT INTO contact_tags (contact_key, tag, tenant_id)
SELECT c.id, t.tag, c.tenant_id
FROM rows(:tags: email text, tag text) AS t
CROSS JOIN contacts AS c
-- Each is looked for by itself: a planner that knows nothing of a young table would rather compare everyone with everyone.
WHERE c.id = (SELECT k.id FROM contacts AS k WHERE k.tenant_id = :tenant_id AND k.email = t.email)
ORDER BY c.id, t.tag
ON CONFLICT (contact_key, tag) DO NOTHING
