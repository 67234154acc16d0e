-- Counts the events between two keys by minute, only for the types that charts show. Opens and clicks by machines have
-- separate types. Messages that were not sent because the recipient may not receive them (see domain/buckets.py) are not
-- failures. In the LIKE patterns, `_` matches the colon of the JSON.
SELECT tenant_id, created_at - created_at % 60000 AS minute,
  CASE WHEN type IN ('open', 'click') AND metadata LIKE '%"isMachine"_true%' THEN 'machine_' || type ELSE type END AS type,
  count(*) AS events
FROM events
WHERE id > :after AND id <= :up_to
  AND type IN ('SENT', 'FAILED', 'IN_DOUBT', 'delivered', 'open', 'click', 'bounce', 'complaint', 'unsubscribe')
  AND NOT (type = 'FAILED' AND (
    metadata LIKE '%"errorCode"_"RECIPIENT_SUPPRESSED"%' OR metadata LIKE '%"errorCode"_"RECIPIENT_NOT_FOUND"%'
    OR metadata LIKE '%"errorCode"_"FREQUENCY_CAP"%' OR metadata LIKE '%"errorCode"_"RECIPIENT_SNOOZED"%'
  ))
GROUP BY tenant_id, created_at - created_at % 60000,
  CASE WHEN type IN ('open', 'click') AND metadata LIKE '%"isMachine"_true%' THEN 'machine_' || type ELSE type END
