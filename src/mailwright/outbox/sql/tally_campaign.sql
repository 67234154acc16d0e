-- The columns of `tally_campaigns` for one campaign, for events that are not tallied yet.
SELECT n.minute, n.type, CAST(sum(n.weight) AS bigint) AS events, CAST(sum(n.is_first) AS bigint) AS unique_messages
FROM (
  SELECT e.created_at - e.created_at % 60000 AS minute,
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
    END AS is_first
  FROM events AS e
  CROSS JOIN messages AS m
  WHERE e.id > :after AND e.id <= :up_to
    AND e.type IN ('SENT', 'delivered', 'open', 'click', 'bounce', 'complaint', 'not_spam', 'unsubscribe', 'replied')
    AND m.id = e.message_key AND m.campaign_key + 0 = :campaign_key
) AS n
GROUP BY n.minute, n.type
