-- Counts the messages of the lane that are due before this one, up to the limit.
SELECT count(*) AS ahead FROM (
  SELECT 1 FROM deliveries
  WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED') AND lane = :lane
    AND (claimable_at, message_key) < (CAST(:claimable_at AS bigint), CAST(:message_key AS bigint))
  LIMIT :limit
) AS before_it
