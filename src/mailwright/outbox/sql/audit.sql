-- Reads the accepted messages and their states in one statement, so that they come from one snapshot. Messages that
-- retention deleted count with the state that they had.
SELECT 'accepted' AS name, CAST(COALESCE(sum(accepted), 0) AS bigint) AS messages, 0 AS resends FROM accepted_counts
UNION ALL
SELECT
  CASE WHEN status = 'FAILED' AND error_code IN ('RECIPIENT_SUPPRESSED', 'RECIPIENT_NOT_FOUND', 'FREQUENCY_CAP', 'RECIPIENT_SNOOZED') THEN 'SUPPRESSED'
    ELSE status END,
  count(*), CAST(COALESCE(sum(resends), 0) AS bigint)
FROM deliveries
GROUP BY 1
UNION ALL
SELECT CASE bucket WHEN 'bounced' THEN 'SENT' ELSE upper(bucket) END,
  CAST(sum(deleted) AS bigint), CAST(sum(resends) AS bigint)
FROM retention_tombstones
WHERE kind = 'messages'
GROUP BY 1
UNION ALL
SELECT 'deleted', CAST(COALESCE(sum(deleted), 0) AS bigint), 0 FROM retention_tombstones WHERE kind = 'messages'
