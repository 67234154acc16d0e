-- Those who were there before this portion: a new one has the id that was made for them just now.
SELECT c.id, c.email, c.name, c.locale, c.timezone, c.attributes, c.status, c.deleted_at,
  -- How they stand to the list, and who put them on it: in one text, as two would be two searches.
  (
    SELECT CASE WHEN s.unsubscribed_at IS NOT NULL THEN 'left ' WHEN s.is_pending THEN 'pending ' ELSE 'on ' END || s.source
    FROM subscriptions AS s
    WHERE s.contact_key = c.id AND s.list_key = CAST(:list_key AS text)
  ) AS listed
FROM rows(:people: contact_id text, email text) AS p
CROSS JOIN contacts AS c
-- Each is looked for by itself: a planner that knows nothing of a young table would rather compare everyone with everyone.
WHERE c.id = (SELECT k.id FROM contacts AS k WHERE k.tenant_id = :tenant_id AND k.email = p.email)
  AND c.contact_id <> p.contact_id
ORDER BY c.email
for update
