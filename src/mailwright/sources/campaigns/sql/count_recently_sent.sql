-- Count the messages of a campaign that were sent recently. Messages are sent in the order of their keys, so all of
-- them are before the first waiting one, and only a limited range of keys is read. The condition of the subquery must
-- match the partial index.
SELECT count(*) AS messages
FROM (
  SELECT message_key AS first FROM deliveries
  WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED') AND lane = :lane
  ORDER BY claimable_at, message_key
  LIMIT 1
) AS waiting
JOIN deliveries AS d ON d.message_key < waiting.first AND d.message_key > waiting.first - CAST(:most AS bigint)
WHERE d.lane = :lane AND d.status = 'SENT' AND d.sent_at > :since AND d.sent_at <= :now
