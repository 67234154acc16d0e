-- Claims the oldest due messages of one lane.
WITH due AS MATERIALIZED (
  SELECT message_key FROM deliveries
  WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED') AND lane = :lane AND claimable_at <= :now
  ORDER BY claimable_at, message_key
  LIMIT :limit
  skip locked
)
UPDATE deliveries
SET claim_token = :token, locked_by = :worker, locked_at = :now, claimable_at = :locked_until, claims = claims + 1,
    permits = NULL
FROM due
WHERE deliveries.message_key = due.message_key
