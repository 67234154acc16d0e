-- The columns that decide how the anonymous opens and clicks of a campaign are counted. The first messages have the next keys after
-- the start; COALESCE keeps the planner on this short range of keys.
SELECT c.id AS campaign_key, t.tracking, c.definition, (
    SELECT MIN(COALESCE(d.sent_at, d.attempted_at))
    FROM messages AS m
    JOIN deliveries AS d ON d.message_key = m.id
    WHERE m.id > c.messages_after_key AND m.id <= c.messages_after_key + 1000 AND COALESCE(m.campaign_key, 0) = c.id
  ) AS first_sent_at
FROM rows(:wanted: campaign_key bigint) AS wanted
CROSS JOIN campaigns AS c
JOIN tenants AS t ON t.id = c.tenant_id
WHERE c.id = wanted.campaign_key
