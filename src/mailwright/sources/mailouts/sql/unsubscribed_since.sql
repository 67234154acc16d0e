-- Counts the recipients who unsubscribed or complained because of a mailout. The cause is the message whose link they
-- used or that they complained about; if it is unknown, the latest mailout that they had received by then.
SELECT count(*) AS people
FROM messages AS m
JOIN deliveries AS d ON d.message_key = m.id
WHERE m.campaign_key = CAST(:campaign_key AS bigint) AND d.status = 'SENT'
  AND EXISTS (
    SELECT 1 FROM suppressions AS s
    WHERE s.tenant_id = m.tenant_id AND s.email = m.to_email AND s.list_key IN ('*', 'general')
      AND s.reason IN ('unsubscribed', 'complaint') AND s.created_at >= CAST(:since AS bigint)
      AND m.id = COALESCE(
        (
          SELECT e.message_key
          FROM messages AS other
          JOIN events AS e ON e.message_key = other.id AND e.type IN ('unsubscribe', 'complaint')
          WHERE other.tenant_id = m.tenant_id AND other.to_email = m.to_email AND e.created_at >= CAST(:since AS bigint)
          ORDER BY e.created_at DESC, e.id DESC
          LIMIT 1
        ),
        (
          SELECT max(other.id)
          FROM messages AS other
          JOIN deliveries AS sent ON sent.message_key = other.id
          WHERE other.tenant_id = m.tenant_id AND other.to_email = m.to_email AND other.source = 'mailout'
            AND sent.status = 'SENT' AND sent.sent_at <= s.created_at
        )
      )
  )
