-- Lists the opens, clicks, unsubscribes and deliveries of messages, in the order in which they are tallied. CROSS JOIN makes the planner
-- start with the few given rows.
SELECT e.id AS event_key, e.message_key, e.tenant_id, e.type, e.created_at, e.metadata, m.campaign_key,
  COALESCE(m.template_key, 0) AS template_key, m.to_email
FROM rows(:wanted: message_key bigint) AS w
CROSS JOIN events AS e
JOIN messages AS m ON m.id = e.message_key
WHERE e.message_key = w.message_key AND e.type IN ('open', 'click', 'unsubscribe', 'delivered')
ORDER BY e.id
