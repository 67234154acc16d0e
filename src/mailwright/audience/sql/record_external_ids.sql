-- Records to which address each ID belongs now.
INSERT INTO contact_external_ids (tenant_id, external_id, email)
SELECT n.tenant_id, n.external_id, n.email
FROM rows(:ids: tenant_id bigint, external_id text, email text) AS n
WHERE true
ORDER BY n.tenant_id, n.external_id
ON CONFLICT (tenant_id, external_id) DO UPDATE SET email = excluded.email
