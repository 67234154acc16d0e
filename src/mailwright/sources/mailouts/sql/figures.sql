-- Counts the sent messages of one mailout that were delivered.
SELECT count(DISTINCT r.message_key) AS delivered
FROM messages AS m
JOIN deliveries AS d ON d.message_key = m.id
JOIN reports AS r ON r.message_key = m.id
WHERE m.campaign_key = CAST(:campaign_key AS bigint) AND d.status = 'SENT' AND r.type = 'delivered'
