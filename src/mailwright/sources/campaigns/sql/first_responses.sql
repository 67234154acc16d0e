-- Returns when people first opened, clicked or unsubscribed, for each of these messages. The condition repeats that of the
-- partial index; CROSS JOIN fixes the join order for SQLite. In the LIKE pattern, `_` matches the colon of the JSON.
SELECT events.message_key, events.type, min(events.created_at) AS at
FROM rows(:wanted: message_key bigint) AS wanted
CROSS JOIN events
WHERE events.message_key = wanted.message_key
  AND (events.type = 'open' OR events.type = 'click' OR events.type = 'bounce' OR events.type = 'complaint' OR events.type = 'unsubscribe')
  AND events.type IN ('open', 'click', 'unsubscribe') AND events.metadata NOT LIKE '%"isMachine"_true%'
GROUP BY events.message_key, events.type
