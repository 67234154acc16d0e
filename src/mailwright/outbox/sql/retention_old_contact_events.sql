-- Finds old contact events of a tenant.
SELECT e.id, length(e.properties) + length(e.email) + length(e.name) + length(e.event_id) + 40 AS bytes, 1 AS affected
FROM contact_events AS e
WHERE e.tenant_id = :tenant_id AND e.received_at < :before
ORDER BY e.received_at
LIMIT :limit
