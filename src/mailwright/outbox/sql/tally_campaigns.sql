-- Counts the events of campaigns between two keys, by template and minute. Also counts the messages that had an event of
-- this type for the first time (of SENT: those that are tracked individually), and those that a person opened or clicked
-- for the first time. Opens, clicks and replies by machines have separate types. A report that a message is not spam
-- takes its complaint back, and a later complaint counts again. In the LIKE pattern, `_` matches the colon of the JSON.
-- The query must start with the events: CROSS JOIN fixes that order for SQLite, and `+ 0` keeps PostgreSQL from using
-- the index of campaigns.
SELECT n.campaign_key, n.template_key, n.minute, n.type, CAST(sum(n.weight) AS bigint) AS events,
  CAST(sum(n.is_first) AS bigint) AS unique_messages, CAST(sum(n.is_first_response) AS bigint) AS first_responses
FROM (
  SELECT m.campaign_key, COALESCE(m.template_key, 0) AS template_key, e.created_at - e.created_at % 60000 AS minute,
    CASE
      WHEN e.type IN ('open', 'click') AND e.metadata LIKE '%"isMachine"_true%' THEN 'machine_' || e.type
      WHEN e.type = 'replied' AND e.metadata LIKE '%"isAutomatic"_true%' THEN 'machine_replied'
      WHEN e.type = 'not_spam' THEN 'complaint'
      ELSE e.type
    END AS type,
    CASE WHEN e.type <> 'not_spam' THEN 1 WHEN (
      SELECT b.type FROM events AS b
      WHERE b.message_key = e.message_key AND b.type IN ('complaint', 'not_spam') AND b.id < e.id
      ORDER BY b.id DESC LIMIT 1
    ) = 'complaint' THEN -1 ELSE 0 END AS weight,
    CASE
      WHEN e.type = 'SENT' THEN CASE WHEN e.metadata LIKE '%"isTracked"_true%' THEN 1 ELSE 0 END
      WHEN e.type IN ('complaint', 'not_spam') THEN CASE COALESCE((
        SELECT b.type FROM events AS b
        WHERE b.message_key = e.message_key AND b.type IN ('complaint', 'not_spam') AND b.id < e.id
        ORDER BY b.id DESC LIMIT 1
      ), 'not_spam') WHEN e.type THEN 0 WHEN 'complaint' THEN -1 ELSE CASE e.type WHEN 'complaint' THEN 1 ELSE 0 END END
      WHEN EXISTS (
        SELECT 1 FROM events AS b
        WHERE b.message_key = e.message_key AND b.type = e.type AND b.id < e.id
          AND (b.type NOT IN ('open', 'click') OR (b.metadata LIKE '%"isMachine"_true%') = (e.metadata LIKE '%"isMachine"_true%'))
          AND (b.type <> 'replied' OR (b.metadata LIKE '%"isAutomatic"_true%') = (e.metadata LIKE '%"isAutomatic"_true%'))
      ) THEN 0
      ELSE 1
    END AS is_first,
    CASE
      WHEN e.type NOT IN ('open', 'click') OR e.metadata LIKE '%"isMachine"_true%' THEN 0
      WHEN EXISTS (
        SELECT 1 FROM events AS b
        WHERE b.message_key = e.message_key AND b.type IN ('open', 'click') AND b.id < e.id
          AND b.metadata NOT LIKE '%"isMachine"_true%'
      ) THEN 0
      ELSE 1
    END AS is_first_response
  FROM events AS e
  CROSS JOIN messages AS m
  WHERE e.id > :after AND e.id <= :up_to
    AND e.type IN ('SENT', 'delivered', 'open', 'click', 'bounce', 'complaint', 'not_spam', 'unsubscribe', 'replied')
    AND m.id = e.message_key AND m.campaign_key + 0 IS NOT NULL
) AS n
GROUP BY n.campaign_key, n.template_key, n.minute, n.type
