-- Finds the addresses that are subscribed to any list.
SELECT c.email
FROM rows(:contacts: email text) AS p
CROSS JOIN contacts AS c
-- One lookup per row: without statistics of a young table, the planner would compare all rows with all rows.
WHERE c.id = (SELECT k.id FROM contacts AS k WHERE k.tenant_id = :tenant_id AND k.email = p.email)
  AND EXISTS (
    SELECT 1 FROM subscriptions AS s
    WHERE s.contact_key = c.id AND s.unsubscribed_at IS NULL AND NOT s.is_pending
  )
