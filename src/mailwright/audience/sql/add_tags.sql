INSERT INTO contact_tags (contact_key, tag, tenant_id)
SELECT n.contact_key, n.tag, CAST(:tenant_id AS bigint)
FROM rows(:tags: contact_key bigint, tag text) AS n
WHERE true
ON CONFLICT (contact_key, tag) DO NOTHING
