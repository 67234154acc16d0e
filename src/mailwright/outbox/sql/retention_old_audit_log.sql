-- Finds old entries of a tenant's audit log.
SELECT a.id, length(a.actor) + length(a.action) + length(a.subject) + length(a.detail) + 32 AS bytes, 1 AS affected
FROM audit_log AS a
WHERE a.tenant_id = :tenant_id AND a.created_at < :before
ORDER BY a.id
LIMIT :limit
