-- Adds up the results of each template of a campaign: the tallies, and the events since. One statement reads one
-- snapshot, so that events that are tallied in the meantime are not counted twice. Opens and clicks by machines do not
-- count. `:after` repeats the cursor as a constant for the planner; `:up_to` bounds the time if the tallies lag.
SELECT counted.template_key, CAST(sum(counted.sent) AS bigint) AS sent, CAST(sum(counted.opened) AS bigint) AS opened,
  CAST(sum(counted.clicked) AS bigint) AS clicked
FROM (
  SELECT template_key, sent, opened, clicked FROM variant_tallies WHERE campaign_key = :campaign_key
  UNION ALL
  SELECT COALESCE(m.template_key, 0),
    CASE WHEN e.type = 'SENT' THEN 1 ELSE 0 END,
    CASE
      WHEN e.type = 'SENT' THEN 0
      WHEN EXISTS (
        SELECT 1 FROM events AS b
        WHERE b.message_key = e.message_key AND b.type IN ('open', 'click') AND b.id < e.id
          AND b.metadata NOT LIKE '%"isMachine"_true%'
      ) THEN 0
      ELSE 1
    END,
    CASE
      WHEN e.type <> 'click' THEN 0
      WHEN EXISTS (
        SELECT 1 FROM events AS b
        WHERE b.message_key = e.message_key AND b.type = 'click' AND b.id < e.id
          AND b.metadata NOT LIKE '%"isMachine"_true%'
      ) THEN 0
      ELSE 1
    END
  FROM events AS e
  CROSS JOIN messages AS m
  WHERE e.id > :after AND e.id <= :up_to
    AND e.id > (SELECT COALESCE(max(CAST(value AS bigint)), 0) FROM installation WHERE name = 'campaigns_tallied_up_to')
    AND (e.type = 'SENT' OR (e.type IN ('open', 'click') AND e.metadata NOT LIKE '%"isMachine"_true%'))
    AND m.id = e.message_key AND m.campaign_key + 0 = :campaign_key
) AS counted
GROUP BY counted.template_key
