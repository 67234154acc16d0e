INSERT INTO deliveries (message_key, tenant_id, lane, status, claimable_at, next_attempt_at, attempts, claims, resends)
SELECT m.id, n.tenant_id, n.lane, 'PENDING', n.due_at, n.due_at, 0, 0, 0
FROM rows(:deliveries: outbox_id text, tenant_id bigint, lane bigint, due_at bigint) AS n
JOIN messages AS m ON m.outbox_id = n.outbox_id
