-- Reads the accepted messages and their states in one statement, so that they come from one snapshot. Messages that
-- retention deleted count with the state that they had. The states are counted without GROUP BY, for which SQLite sorts
-- all messages in memory. A state that is not named here makes the audit fail.
WITH counted AS (
  SELECT
    count(*) FILTER (WHERE status = 'SENT') AS sent,
    count(*) FILTER (WHERE status = 'PENDING') AS pending,
    count(*) FILTER (WHERE status = 'RETRY_SCHEDULED') AS retry_scheduled,
    count(*) FILTER (WHERE status = 'SENT_ATTEMPT') AS sent_attempt,
    count(*) FILTER (WHERE status = 'FAILED') AS failed,
    count(*) FILTER (
      WHERE status = 'FAILED'
        AND error_code IN ('RECIPIENT_SUPPRESSED', 'RECIPIENT_NOT_FOUND', 'FREQUENCY_CAP', 'RECIPIENT_SNOOZED')
    ) AS suppressed,
    count(*) FILTER (WHERE status = 'IN_DOUBT') AS in_doubt,
    count(*) FILTER (WHERE status = 'CLOSED_UNKNOWN') AS closed_unknown,
    count(*) FILTER (WHERE status = 'CANCELLED') AS cancelled,
    CAST(COALESCE(sum(resends), 0) AS bigint) AS resends
  FROM deliveries
)
SELECT 'accepted' AS name, CAST(COALESCE(sum(accepted), 0) AS bigint) AS messages, 0 AS resends FROM accepted_counts
UNION ALL
SELECT 'SENT', sent, resends FROM counted
UNION ALL
SELECT 'PENDING', pending, 0 FROM counted
UNION ALL
SELECT 'RETRY_SCHEDULED', retry_scheduled, 0 FROM counted
UNION ALL
SELECT 'SENT_ATTEMPT', sent_attempt, 0 FROM counted
UNION ALL
SELECT 'FAILED', failed - suppressed, 0 FROM counted
UNION ALL
SELECT 'SUPPRESSED', suppressed, 0 FROM counted
UNION ALL
SELECT 'IN_DOUBT', in_doubt, 0 FROM counted
UNION ALL
SELECT 'CLOSED_UNKNOWN', closed_unknown, 0 FROM counted
UNION ALL
SELECT 'CANCELLED', cancelled, 0 FROM counted
UNION ALL
SELECT CASE bucket WHEN 'bounced' THEN 'SENT' ELSE upper(bucket) END,
  CAST(sum(deleted) AS bigint), CAST(sum(resends) AS bigint)
FROM retention_tombstones
WHERE kind = 'messages'
GROUP BY 1
UNION ALL
SELECT 'deleted', CAST(COALESCE(sum(deleted), 0) AS bigint), 0 FROM retention_tombstones WHERE kind = 'messages'
