-- Reads the accepted messages and their current states in one statement, so that they come from one snapshot.
SELECT 'accepted' AS name, CAST(COALESCE(sum(accepted), 0) AS bigint) AS messages, 0 AS resends FROM accepted_counts
UNION ALL
SELECT
  CASE WHEN status = 'FAILED' AND error_code IN ('RECIPIENT_SUPPRESSED', 'RECIPIENT_NOT_FOUND') THEN 'SUPPRESSED'
    ELSE status END,
  count(*), CAST(COALESCE(sum(resends), 0) AS bigint)
FROM deliveries
GROUP BY 1
