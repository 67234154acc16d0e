-- Counts the messages of each template of a campaign whose first open or click by a person is younger than `:since`. It
-- looks only at the latest events, because they have no index by time.
SELECT COALESCE(m.template_key, 0) AS template_key,
  CAST(sum(CASE WHEN EXISTS (
    SELECT 1 FROM events AS b
    WHERE b.message_key = recent.message_key AND b.type IN ('open', 'click') AND b.created_at <= :since
      AND b.metadata NOT LIKE '%"isMachine"_true%'
  ) THEN 0 ELSE 1 END) AS bigint) AS opened,
  CAST(sum(CASE WHEN recent.clicks = 0 OR EXISTS (
    SELECT 1 FROM events AS b
    WHERE b.message_key = recent.message_key AND b.type = 'click' AND b.created_at <= :since
      AND b.metadata NOT LIKE '%"isMachine"_true%'
  ) THEN 0 ELSE 1 END) AS bigint) AS clicked
FROM (
  SELECT e.message_key, sum(CASE WHEN e.type = 'click' THEN 1 ELSE 0 END) AS clicks
  FROM (SELECT message_key, type, created_at, metadata FROM events ORDER BY id DESC LIMIT :most) AS e
  WHERE e.type IN ('open', 'click') AND e.created_at > :since AND e.metadata NOT LIKE '%"isMachine"_true%'
  GROUP BY e.message_key
) AS recent
CROSS JOIN messages AS m
WHERE m.id = recent.message_key AND m.campaign_key + 0 = :campaign_key
GROUP BY COALESCE(m.template_key, 0)
