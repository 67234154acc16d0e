INSERT INTO events (message_key, tenant_id, type, created_at, metadata)
SELECT message_key, tenant_id, type, created_at, metadata
FROM rows(:events: message_key bigint, tenant_id bigint, type text, created_at bigint, metadata text) AS e
