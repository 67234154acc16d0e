-- Finds old rows of shadow mode of a tenant.
SELECT s.id, length(s.detail) + length(s.relay_reply) + 300 AS bytes, 1 AS affected
FROM shadow_emails AS s
WHERE s.tenant_id = :tenant_id AND s.created_at < :before
ORDER BY s.id
LIMIT :limit
