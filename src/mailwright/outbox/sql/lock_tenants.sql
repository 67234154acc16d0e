-- Serializes the workers that send for a tenant with a limit, so that two of them do not count the same free places.
SELECT id FROM tenants WHERE id IN (SELECT t.tenant_id FROM rows(:tenants: tenant_id bigint) AS t) ORDER BY id
for update
