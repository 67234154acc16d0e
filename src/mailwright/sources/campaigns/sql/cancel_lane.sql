-- A portion of what waits in a lane is not sent any more.
UPDATE deliveries
SET status = 'CANCELLED', claimable_at = 0, next_attempt_at = NULL, defer_reason = NULL
WHERE message_key IN (
  SELECT message_key FROM deliveries
  WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED') AND lane = :lane
  ORDER BY claimable_at, message_key
  LIMIT :limit
)
RETURNING message_key, tenant_id
