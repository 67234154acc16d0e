-- The unsubscribe of a contact who was never subscribed to the list.
DELETE FROM subscriptions
WHERE contact_key = (SELECT id FROM contacts WHERE tenant_id = :tenant_id AND email = :email)
  AND list_key = :list_key AND subscribed_at IS NULL
