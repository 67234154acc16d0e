-- Events between two keys, by minute; only the types that charts show.
SELECT tenant_id, created_at - created_at % 60000 AS minute, type, count(*) AS events
FROM events
WHERE id > :after AND id <= :up_to
  AND type IN ('SENT', 'FAILED', 'IN_DOUBT', 'delivered', 'open', 'click', 'bounce', 'complaint', 'unsubscribe')
GROUP BY tenant_id, created_at - created_at % 60000, type
