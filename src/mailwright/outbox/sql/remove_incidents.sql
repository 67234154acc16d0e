-- Removes incidents of messages of campaigns.
DELETE FROM campaign_incidents
WHERE EXISTS (
  SELECT 1 FROM rows(:incidents: message_key bigint, kind text) AS i
  JOIN messages AS m ON m.id = i.message_key
  WHERE campaign_incidents.campaign_key = m.campaign_key AND campaign_incidents.kind = i.kind
    AND campaign_incidents.message_key = i.message_key
)
