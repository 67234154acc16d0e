-- Counts the failed messages among those accepted since a time, up to a limit. Messages to suppressed and deleted
-- recipients do not count. The first condition must match the partial index. `after` is a key before that time.
SELECT count(*) AS messages FROM (
  SELECT 1 FROM deliveries AS d
  JOIN messages AS m ON m.id = d.message_key
  WHERE d.status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED') AND d.tenant_id = :tenant_id
    AND d.status = 'FAILED' AND d.message_key > :after AND m.created_at >= :since
    AND COALESCE(d.error_code, '') NOT IN ('RECIPIENT_SUPPRESSED', 'RECIPIENT_NOT_FOUND', 'FREQUENCY_CAP', 'RECIPIENT_SNOOZED')
  LIMIT :most) AS f
