-- Where the letters of a run stand, without its sent ones: from indexes that hold only what is not yet done or went wrong,
-- each condition word for word its index's. What remains of `recipients` was sent. CROSS JOIN keeps SQLite to this order,
-- and `|| ''` keeps PostgreSQL from the index of the run, which holds all of its letters.
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
