-- Scans the newest keys, because the run's index would read every earlier batch again. COALESCE prevents the use of
-- that index.
INSERT INTO deliveries (message_key, tenant_id, lane, status, claimable_at, next_attempt_at, attempts, claims, resends)
SELECT m.id, m.tenant_id, CAST(:lane AS bigint), 'PENDING', CAST(:now AS bigint), CAST(:now AS bigint), 0, 0, 0
FROM messages AS m
WHERE m.id > :after_key AND COALESCE(m.request_id, '') = :run_id
