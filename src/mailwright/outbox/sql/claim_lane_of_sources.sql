-- Claims the oldest due messages of one lane that have one of these sources, because a worker of another provider claims
-- the others. It looks only at the first messages of the lane, so that a long backlog of another provider costs little.
WITH front AS MATERIALIZED (
  SELECT message_key FROM deliveries
  WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED') AND lane = :lane AND claimable_at <= :now
  ORDER BY claimable_at, message_key
  LIMIT 20000
), due AS MATERIALIZED (
  SELECT d.message_key FROM deliveries AS d
  WHERE d.message_key IN (SELECT front.message_key FROM front)
    AND d.locked_by IS NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED') AND d.claimable_at <= :now
    AND COALESCE((SELECT m.source FROM messages AS m WHERE m.id = d.message_key), '')
      IN (SELECT s.source FROM rows(:sources: source text) AS s)
  ORDER BY d.claimable_at, d.message_key
  LIMIT :limit
  skip locked
)
UPDATE deliveries
SET claim_token = :token, locked_by = :worker, locked_at = :now, claimable_at = :locked_until, claims = claims + 1,
    permits = NULL
FROM due
WHERE deliveries.message_key = due.message_key
