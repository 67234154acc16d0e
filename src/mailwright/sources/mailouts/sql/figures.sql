-- Counts the delivery and bounce reports of the sent messages of one mailout.
SELECT
  count(DISTINCT CASE WHEN r.type = 'delivered' THEN r.message_key END) AS delivered,
  count(DISTINCT CASE WHEN r.verdict = 'hard_bounce' THEN r.message_key END) AS bounced
FROM messages AS m
JOIN deliveries AS d ON d.message_key = m.id
JOIN reports AS r ON r.message_key = m.id
WHERE m.campaign_key = CAST(:campaign_key AS bigint) AND d.status = 'SENT'
