-- Count the failed messages to suppressed addresses, and how many of these addresses bounced. The first condition must
-- match the partial index.
SELECT count(*) AS messages,
  count(CASE WHEN EXISTS (
    SELECT 1 FROM suppressions AS s
    WHERE s.tenant_id = m.tenant_id AND s.email = m.to_email AND s.reason IN ('bounce', 'soft_bounces')
  ) THEN 1 END) AS bounced
FROM deliveries AS d
JOIN messages AS m ON m.id = d.message_key
WHERE d.status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED') AND d.lane = :lane AND d.status = 'FAILED'
  AND COALESCE(d.error_code, '') NOT IN ('RECIPIENT_SUPPRESSED', 'RECIPIENT_NOT_FOUND', 'FREQUENCY_CAP', 'RECIPIENT_SNOOZED')
  AND EXISTS (
    SELECT 1 FROM suppressions AS s
    WHERE s.tenant_id = m.tenant_id AND s.email = m.to_email AND s.list_key IN ('*', 'general', m.list_key)
  )
