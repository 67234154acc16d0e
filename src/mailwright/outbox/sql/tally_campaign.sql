-- The columns of `tally_campaigns` for one campaign, for events that are not tallied yet.
SELECT e.created_at - e.created_at % 60000 AS minute, e.type, count(*) AS events,
  CAST(sum(CASE
    WHEN e.type = 'SENT' THEN 0
    WHEN EXISTS (SELECT 1 FROM events AS b WHERE b.message_key = e.message_key AND b.type = e.type AND b.id < e.id) THEN 0
    ELSE 1
  END) AS bigint) AS unique_messages
FROM events AS e
CROSS JOIN messages AS m
WHERE e.id > :after
  AND e.type IN ('SENT', 'delivered', 'open', 'click', 'bounce', 'complaint', 'unsubscribe')
  AND m.id = e.message_key AND m.campaign_key + 0 = :campaign_key
GROUP BY e.created_at - e.created_at % 60000, e.type
