-- The addresses that get no bulk email of a list: suppressed, erased, inactive, deleted, or unsubscribed from the list.
SELECT p.email
FROM rows(:people: email text) AS p
WHERE EXISTS (
    SELECT 1 FROM suppressions AS s
    WHERE s.tenant_id = CAST(:tenant_id AS bigint) AND s.email = p.email AND s.list_key IN ('*', 'general', :list_key))
  OR EXISTS (
    SELECT 1 FROM contacts AS c
    WHERE c.tenant_id = CAST(:tenant_id AS bigint) AND c.email = p.email
      AND (c.status <> 'active' OR c.deleted_at IS NOT NULL OR EXISTS (
        SELECT 1 FROM subscriptions AS u
        WHERE u.contact_key = c.id AND u.list_key = :list_key AND u.unsubscribed_at IS NOT NULL)))
