-- Counts the unsent messages of a run by status; the rest of `recipients` was sent. Each branch repeats the condition of
-- a partial index that holds only pending or failed deliveries. CROSS JOIN makes SQLite keep this order, and `|| ''`
-- stops PostgreSQL from using the index on the run, which holds all of its messages.
SELECT d.status, count(*) AS number
FROM deliveries AS d
CROSS JOIN messages AS m
WHERE d.status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED') AND d.tenant_id = :tenant_id
  AND d.message_key > :behind
  AND m.id = d.message_key AND m.source || '' = 'article' AND m.request_id = :run_id
GROUP BY d.status
UNION ALL
SELECT d.status, count(*) AS number
FROM deliveries AS d
CROSS JOIN messages AS m
WHERE d.locked_by IS NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED') AND d.lane = :lane
  AND m.id = d.message_key AND m.source || '' = 'article' AND m.request_id = :run_id
GROUP BY d.status
UNION ALL
SELECT d.status, count(*) AS number
FROM deliveries AS d
CROSS JOIN messages AS m
WHERE d.locked_by IS NOT NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED', 'SENT_ATTEMPT')
  AND m.id = d.message_key AND m.source || '' = 'article' AND m.request_id = :run_id
GROUP BY d.status
