-- Finds old submissions of a tenant that prove no current subscription: never confirmed, or unsubscribed since.
SELECT s.id, length(s.attributes) + length(s.consents) + length(s.source) + 200 AS bytes, 1 AS affected
FROM form_submissions AS s
WHERE s.tenant_id = :tenant_id AND s.created_at < :before
  AND (s.confirmed_at IS NULL OR NOT EXISTS (
    SELECT 1 FROM subscriptions AS u
    WHERE u.contact_key = s.contact_key AND u.list_key = s.list_key AND u.unsubscribed_at IS NULL
  ))
ORDER BY s.id
LIMIT :limit
