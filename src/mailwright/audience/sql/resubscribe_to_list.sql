UPDATE subscriptions SET unsubscribed_at = NULL, source = :source
WHERE contact_key = (SELECT id FROM contacts WHERE tenant_id = :tenant_id AND email = :email)
  AND list_key = :list_key AND subscribed_at IS NOT NULL AND unsubscribed_at IS NOT NULL
