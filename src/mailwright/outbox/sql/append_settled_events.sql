-- Appends the events of the results that this settlement wrote.
INSERT INTO events (message_key, tenant_id, type, created_at, metadata)
SELECT e.message_key, e.tenant_id, e.type, e.created_at, e.metadata
FROM rows(:events: message_key bigint, tenant_id bigint, type text, created_at bigint, metadata text, position int) AS e
JOIN deliveries ON deliveries.message_key = e.message_key AND deliveries.settlement = :settlement
ORDER BY e.position
