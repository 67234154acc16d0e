-- Counts the messages that wait, are claimed or are in doubt. Each count uses a partial index of only these messages.
SELECT
  count(*) AS waiting,
  CAST(COALESCE(sum(CASE WHEN claimable_at <= :now THEN 1 ELSE 0 END), 0) AS bigint) AS due,
  (SELECT count(*) FROM deliveries WHERE locked_by IS NOT NULL) AS sending,
  (SELECT count(*) FROM deliveries WHERE status = 'IN_DOUBT') AS in_doubt,
  (SELECT count(*) FROM message_dead_letters) AS dead_letters
FROM deliveries
WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED')
