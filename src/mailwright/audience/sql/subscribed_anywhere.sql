-- Finds the current subscriptions of addresses to all lists.
SELECT c.email, s.list_key
FROM rows(:contacts: email text) AS p
CROSS JOIN contacts AS c
JOIN subscriptions AS s ON s.contact_key = c.id AND s.unsubscribed_at IS NULL AND NOT s.is_pending
-- One lookup per row: without statistics of a young table, the planner would compare all rows with all rows.
WHERE c.id = (SELECT k.id FROM contacts AS k WHERE k.tenant_id = :tenant_id AND k.email = p.email)
ORDER BY c.email, s.list_key
