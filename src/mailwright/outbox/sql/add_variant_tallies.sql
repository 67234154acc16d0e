INSERT INTO variant_tallies (campaign_key, template_key, sent, opened, clicked)
SELECT t.campaign_key, t.template_key,
  CAST(sum(CASE WHEN t.type = 'SENT' THEN t.events ELSE 0 END) AS bigint),
  CAST(sum(t.first_responses) AS bigint),
  CAST(sum(CASE WHEN t.type = 'click' THEN t.unique_messages ELSE 0 END) AS bigint)
FROM rows(:tallies: campaign_key bigint, template_key bigint, type text, events bigint, unique_messages bigint, first_responses bigint) AS t
WHERE true
GROUP BY t.campaign_key, t.template_key
ON CONFLICT (campaign_key, template_key)
DO UPDATE SET sent = variant_tallies.sent + excluded.sent, opened = variant_tallies.opened + excluded.opened,
  clicked = variant_tallies.clicked + excluded.clicked
