INSERT INTO contact_tags (contact_key, tag, tenant_id)
SELECT c.id, t.tag, c.tenant_id
FROM rows(:tags: email text, tag text) AS t
CROSS JOIN contacts AS c
-- One lookup per row: without statistics of a young table, the planner would compare all rows with all rows.
WHERE c.id = (SELECT k.id FROM contacts AS k WHERE k.tenant_id = :tenant_id AND k.email = t.email)
ORDER BY c.id, t.tag
ON CONFLICT (contact_key, tag) DO NOTHING
