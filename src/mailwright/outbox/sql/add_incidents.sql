-- Records that a message of a campaign bounced permanently or was reported as spam, once for each message and kind.
INSERT INTO campaign_incidents (campaign_key, kind, message_key, attempted_at)
SELECT m.campaign_key, i.kind, i.message_key, COALESCE(d.attempted_at, 0)
FROM rows(:incidents: message_key bigint, kind text) AS i
JOIN messages AS m ON m.id = i.message_key
JOIN deliveries AS d ON d.message_key = i.message_key
WHERE m.campaign_key IS NOT NULL
ON CONFLICT (campaign_key, kind, message_key) DO NOTHING
