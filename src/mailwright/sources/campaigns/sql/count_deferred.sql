-- Count the messages of a campaign that a frequency cap or a snooze defers, by the minute in which they are due.
SELECT CASE WHEN defer_reason = 'snoozed' THEN 'snoozed' ELSE 'frequency_cap' END AS reason,
  max(claimable_at) AS until, count(*) AS messages
FROM deliveries
WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED') AND lane = :lane AND claimable_at > :now
  AND (defer_reason = 'snoozed' OR defer_reason LIKE 'frequency_cap:%')
GROUP BY CASE WHEN defer_reason = 'snoozed' THEN 'snoozed' ELSE 'frequency_cap' END, claimable_at / 60000
ORDER BY count(*) DESC
LIMIT :most
