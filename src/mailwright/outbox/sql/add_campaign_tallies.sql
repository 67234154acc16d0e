-- Each minute goes into its minute and into its hour.
INSERT INTO campaign_tallies (campaign_key, length, begins_at, type, events, mails)
SELECT t.campaign_key, l.length, t.minute - t.minute % l.length, t.type,
  CAST(sum(t.events) AS bigint), CAST(sum(t.mails) AS bigint)
FROM rows(:tallies: campaign_key bigint, minute bigint, type text, events bigint, mails bigint) AS t
CROSS JOIN (SELECT 60000 AS length UNION ALL SELECT 3600000 AS length) AS l
WHERE true
GROUP BY t.campaign_key, l.length, t.minute - t.minute % l.length, t.type
ON CONFLICT (campaign_key, length, begins_at, type)
DO UPDATE SET events = campaign_tallies.events + excluded.events, mails = campaign_tallies.mails + excluded.mails
