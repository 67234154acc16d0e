-- Those who were there before this portion: a new one has the id that was made for them just now.
SELECT c.id, c.email, c.name, c.locale, c.timezone, c.attributes, c.status, c.deleted_at,
  (
    SELECT s.source FROM subscriptions AS s
    WHERE s.contact_key = c.id AND s.list_key = CAST(:list_key AS text)
  ) AS joined_by,
  EXISTS (
    SELECT 1 FROM subscriptions AS s WHERE s.contact_key = c.id AND s.list_key = CAST(:list_key AS text)
  ) AS is_member,
  EXISTS (
    SELECT 1 FROM subscriptions AS s
    WHERE s.contact_key = c.id AND s.list_key = CAST(:list_key AS text) AND s.unsubscribed_at IS NOT NULL
  ) AS has_left
FROM rows(:people: contact_id text, email text) AS p
CROSS JOIN contacts AS c  -- begins with the few who are looked for, whatever the planner thinks of them
WHERE c.tenant_id = :tenant_id AND c.email = p.email AND c.contact_id <> p.contact_id
ORDER BY c.email
for update
