-- Lists the clicks of campaigns between two keys, with their links, and whether the same message already had the same
-- click.
SELECT m.campaign_key, e.metadata,
  CASE WHEN EXISTS (
    SELECT 1 FROM events AS b
    WHERE b.message_key = e.message_key AND b.type = 'click' AND b.id < e.id AND b.metadata = e.metadata
  ) THEN 0 ELSE 1 END AS is_first
FROM events AS e
CROSS JOIN messages AS m
WHERE e.id > :after AND e.id <= :up_to AND e.type = 'click'
  AND m.id = e.message_key AND m.campaign_key + 0 IS NOT NULL
