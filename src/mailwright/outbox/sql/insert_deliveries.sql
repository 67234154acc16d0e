INSERT INTO deliveries (message_key, tenant_id, lane, status, claimable_at, next_attempt_at, attempts, claims, resends)
SELECT message_key, tenant_id, lane, 'PENDING', due_at, due_at, 0, 0, 0
FROM rows(:deliveries: message_key bigint, tenant_id bigint, lane bigint, due_at bigint) AS d
