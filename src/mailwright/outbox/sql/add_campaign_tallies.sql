-- Adds the counts of each minute to the row of that minute and to the row of its hour.
INSERT INTO campaign_tallies (campaign_key, bucket_ms, begins_at, type, events, unique_messages)
SELECT t.campaign_key, l.bucket_ms, t.minute - t.minute % l.bucket_ms, t.type,
  CAST(sum(t.events) AS bigint), CAST(sum(t.unique_messages) AS bigint)
FROM rows(:tallies: campaign_key bigint, minute bigint, type text, events bigint, unique_messages bigint) AS t
CROSS JOIN (SELECT 60000 AS bucket_ms UNION ALL SELECT 3600000 AS bucket_ms) AS l
WHERE true
GROUP BY t.campaign_key, l.bucket_ms, t.minute - t.minute % l.bucket_ms, t.type
ON CONFLICT (campaign_key, bucket_ms, begins_at, type)
DO UPDATE SET events = campaign_tallies.events + excluded.events, unique_messages = campaign_tallies.unique_messages + excluded.unique_messages
