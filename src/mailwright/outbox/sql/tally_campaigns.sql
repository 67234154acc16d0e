-- Events of campaigns between two keys, by template and minute, with the number of messages that had an event of this type
-- for the first time, and the number that were opened or clicked for the first time. The events come first, whatever the
-- engine expects: CROSS JOIN fixes the order for SQLite, and `+ 0` keeps PostgreSQL from the index of campaigns.
SELECT m.campaign_key, COALESCE(m.template_key, 0) AS template_key, e.created_at - e.created_at % 60000 AS minute, e.type,
  count(*) AS events,
  CAST(sum(CASE
    WHEN e.type = 'SENT' THEN 0
    WHEN EXISTS (SELECT 1 FROM events AS b WHERE b.message_key = e.message_key AND b.type = e.type AND b.id < e.id) THEN 0
    ELSE 1
  END) AS bigint) AS unique_messages,
  CAST(sum(CASE
    WHEN e.type NOT IN ('open', 'click') THEN 0
    WHEN EXISTS (
      SELECT 1 FROM events AS b WHERE b.message_key = e.message_key AND b.type IN ('open', 'click') AND b.id < e.id
    ) THEN 0
    ELSE 1
  END) AS bigint) AS first_responses
FROM events AS e
CROSS JOIN messages AS m
WHERE e.id > :after AND e.id <= :up_to
  AND e.type IN ('SENT', 'delivered', 'open', 'click', 'bounce', 'complaint', 'unsubscribe')
  AND m.id = e.message_key AND m.campaign_key + 0 IS NOT NULL
GROUP BY m.campaign_key, COALESCE(m.template_key, 0), e.created_at - e.created_at % 60000, e.type
