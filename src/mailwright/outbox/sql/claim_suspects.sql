-- Claims messages whose lease expired without a result, because one of them may have crashed its worker. Messages with
-- the most claims come first, in ever smaller batches. Among them, transactional messages come first, because a lane's
-- number begins with its priority.
WITH expired AS MATERIALIZED (
  SELECT message_key, claims, lane FROM deliveries
  WHERE locked_by IS NOT NULL AND claimable_at <= :now AND status IN ('PENDING', 'RETRY_SCHEDULED')
  ORDER BY claims DESC, lane, message_key
  LIMIT :limit
  skip locked
), due AS MATERIALIZED (
  SELECT message_key FROM expired
  WHERE claims = (SELECT max(claims) FROM expired)
  ORDER BY lane, message_key
  LIMIT CASE (SELECT max(claims) FROM expired) WHEN 1 THEN 125 WHEN 2 THEN 31 WHEN 3 THEN 8 ELSE 1 END
)
UPDATE deliveries
SET claim_token = :token, locked_by = :worker, locked_at = :now, claimable_at = :locked_until,
    claims = deliveries.claims + 1
FROM due
WHERE deliveries.message_key = due.message_key
