-- Counts the recipients of a mailout that unsubscribed or complained since it started.
SELECT count(*) AS people
FROM messages AS m
JOIN deliveries AS d ON d.message_key = m.id
WHERE m.campaign_key = CAST(:campaign_key AS bigint) AND d.status = 'SENT'
  AND EXISTS (
    SELECT 1 FROM suppressions AS s
    WHERE s.tenant_id = m.tenant_id AND s.email = m.to_email AND s.list_key IN ('*', 'general')
      AND s.reason IN ('unsubscribed', 'complaint') AND s.created_at >= CAST(:since AS bigint)
  )
