-- Deletes the record that a contact unsubscribed from a list without ever having subscribed to it.
DELETE FROM subscriptions
WHERE contact_key = (SELECT id FROM contacts WHERE tenant_id = :tenant_id AND email = :email)
  AND list_key = :list_key AND subscribed_at IS NULL
