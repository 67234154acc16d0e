-- How many mails of a campaign were sent lately. They leave in the order of their keys, so that all of them lie before the
-- first that waits, and no more than so many keys are looked at. That first one is found along its index, whose
-- condition this is word for word.
SELECT count(*) AS mails
FROM (
  SELECT message_key AS first FROM deliveries
  WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED') AND lane = :lane
  ORDER BY claimable_at, message_key
  LIMIT 1
) AS waiting
JOIN deliveries AS d ON d.message_key < waiting.first AND d.message_key > waiting.first - CAST(:most AS bigint)
WHERE d.lane = :lane AND d.status = 'SENT' AND d.sent_at > :since AND d.sent_at <= :now
