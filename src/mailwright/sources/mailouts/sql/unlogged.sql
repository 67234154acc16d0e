-- Finds a batch of finished messages of one mailout, after an address, whose current status is not confirmed to be in
-- `send_logs`.
SELECT m.id AS message_key, m.to_email, d.status, d.error_reason, l.is_confirmed
FROM messages AS m
JOIN deliveries AS d ON d.message_key = m.id
LEFT JOIN mailout_logs AS l ON l.message_key = m.id
WHERE m.campaign_key = CAST(:campaign_key AS bigint) AND m.to_email > CAST(:after AS text)
  AND d.status IN ('SENT', 'FAILED', 'CLOSED_UNKNOWN')
  AND (
    l.message_key IS NULL OR NOT l.is_confirmed
    OR l.status <> CASE WHEN d.status = 'SENT' THEN 'sent' ELSE 'failed' END
  )
ORDER BY m.to_email
LIMIT :limit
