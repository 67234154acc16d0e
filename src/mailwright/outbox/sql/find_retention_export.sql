-- Finds the tenant's name and the file that this machine is filling, if there is one.
SELECT t.name AS tenant, e.file, e.bytes
FROM tenants AS t
LEFT JOIN retention_exports AS e
  ON e.tenant_id = t.id AND e.kind = :kind AND e.host = :host AND e.bytes < :largest AND e.replaced_at IS NULL
WHERE t.id = :tenant_id
ORDER BY e.created_at DESC
LIMIT 1
