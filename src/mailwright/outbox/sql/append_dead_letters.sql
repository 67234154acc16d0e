INSERT INTO dead_letters (message_key, tenant_id, code, reason, attempts, created_at)
SELECT message_key, tenant_id, code, reason, attempts, created_at
FROM rows(:letters: message_key bigint, tenant_id bigint, code text, reason text, attempts int, created_at bigint) AS e
WHERE true
ON CONFLICT (message_key) DO NOTHING
