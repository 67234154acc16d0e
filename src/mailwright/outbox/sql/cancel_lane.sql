-- Cancel a batch of the messages of a lane that wait and were due by a time. A message that a worker claims meanwhile is
-- not cancelled: `for update` checks the condition again when it gets the row lock.
WITH waiting AS MATERIALIZED (
  SELECT message_key FROM deliveries
  WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED') AND lane = :lane AND claimable_at <= :due_by
  ORDER BY claimable_at, message_key
  LIMIT :limit
  for update
)
UPDATE deliveries
SET status = 'CANCELLED', claimable_at = 0, next_attempt_at = NULL, defer_reason = NULL
FROM waiting
WHERE deliveries.message_key = waiting.message_key
RETURNING deliveries.message_key, tenant_id
