-- A page of the unsent messages of a run in at most three statuses, ordered by address. `run_counts.sql` explains the
-- branches.
SELECT m.outbox_id, m.to_email AS email, d.status, d.attempts, d.error_code, d.error_reason, d.next_attempt_at, d.sent_at,
  d.bounced_at
FROM deliveries AS d
CROSS JOIN messages AS m
WHERE d.status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED') AND d.tenant_id = :tenant_id
  AND d.status IN (:one, :two, :three) AND d.message_key > :behind
  AND m.id = d.message_key AND m.source || '' = 'article' AND m.request_id = :run_id AND m.to_email > :email
UNION ALL
SELECT m.outbox_id, m.to_email AS email, d.status, d.attempts, d.error_code, d.error_reason, d.next_attempt_at, d.sent_at,
  d.bounced_at
FROM deliveries AS d
CROSS JOIN messages AS m
WHERE d.locked_by IS NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED') AND d.lane = :lane
  AND d.status IN (:one, :two, :three)
  AND m.id = d.message_key AND m.source || '' = 'article' AND m.request_id = :run_id AND m.to_email > :email
UNION ALL
SELECT m.outbox_id, m.to_email AS email, d.status, d.attempts, d.error_code, d.error_reason, d.next_attempt_at, d.sent_at,
  d.bounced_at
FROM deliveries AS d
CROSS JOIN messages AS m
WHERE d.locked_by IS NOT NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED', 'SENT_ATTEMPT')
  AND d.status IN (:one, :two, :three)
  AND m.id = d.message_key AND m.source || '' = 'article' AND m.request_id = :run_id AND m.to_email > :email
ORDER BY email
LIMIT :limit
