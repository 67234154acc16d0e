-- How many messages of the lane are due before this one. Counting ends at the limit: nobody reads the exact place of
-- a message that far back.
SELECT count(*) AS ahead FROM (
  SELECT 1 FROM deliveries
  WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED') AND lane = :lane
    AND (claimable_at, message_key) < (CAST(:claimable_at AS bigint), CAST(:message_key AS bigint))
  LIMIT :limit
) AS before_it
