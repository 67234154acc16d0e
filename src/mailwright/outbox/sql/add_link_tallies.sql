INSERT INTO link_tallies (campaign_key, type, url, events, unique_messages)
SELECT t.campaign_key, t.type, t.url, t.events, t.unique_messages
FROM rows(:tallies: campaign_key bigint, type text, url text, events bigint, unique_messages bigint) AS t
WHERE true
ON CONFLICT (campaign_key, type, url)
DO UPDATE SET events = link_tallies.events + excluded.events, unique_messages = link_tallies.unique_messages + excluded.unique_messages
