-- Finds the contacts that existed before this batch. New contacts have the ID that the import has just generated.
SELECT c.id, c.email, c.name, c.locale, c.timezone, c.attributes, c.status, c.deleted_at, c.legal_basis,
  (
    SELECT CASE WHEN s.unsubscribed_at IS NOT NULL THEN 'left' WHEN s.is_pending THEN 'pending' ELSE 'on' END
    FROM subscriptions AS s
    WHERE s.contact_key = c.id AND s.list_key = CAST(:list_key AS text)
  ) AS listed,
  (
    SELECT s.source FROM subscriptions AS s WHERE s.contact_key = c.id AND s.list_key = CAST(:list_key AS text)
  ) AS listed_by,
  EXISTS (
    SELECT 1 FROM subscriptions AS s
    WHERE s.contact_key = c.id AND s.is_pending AND s.list_key = COALESCE(CAST(:list_key AS text), s.list_key)
  ) AS is_asked
FROM rows(:contacts: contact_id text, email text) AS p
CROSS JOIN contacts AS c
-- One lookup per row: without statistics of a young table, the planner would compare all rows with all rows.
WHERE c.id = (SELECT k.id FROM contacts AS k WHERE k.tenant_id = :tenant_id AND k.email = p.email)
  AND c.contact_id <> p.contact_id
ORDER BY c.email
for update
