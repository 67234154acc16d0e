-- The public lists that are not archived, and those that this contact is or was subscribed to.
SELECT l.list_key, l.name, l.description, l.is_public, s.unsubscribed_at,
  CASE WHEN s.is_pending THEN NULL ELSE s.subscribed_at END AS subscribed_at,
  EXISTS (
    SELECT 1 FROM suppressions AS x
    WHERE x.tenant_id = l.tenant_id AND x.email = :email AND x.list_key = l.list_key
  ) AS is_suppressed
FROM lists AS l
LEFT JOIN contacts AS c ON c.tenant_id = l.tenant_id AND c.email = :email
LEFT JOIN subscriptions AS s ON s.contact_key = c.id AND s.list_key = l.list_key
WHERE l.tenant_id = :tenant_id AND ((l.is_public AND l.archived_at IS NULL) OR s.id IS NOT NULL)
ORDER BY l.name, l.list_key
