INSERT INTO message_dead_letters (message_key, tenant_id, code, reason, attempts, created_at)
SELECT l.message_key, l.tenant_id, l.code, l.reason, l.attempts, l.created_at
FROM rows(:dead_letters: message_key bigint, tenant_id bigint, code text, reason text, attempts int, created_at bigint) AS l
JOIN deliveries ON deliveries.message_key = l.message_key AND deliveries.settlement = :settlement
WHERE true
ON CONFLICT (message_key) DO NOTHING
