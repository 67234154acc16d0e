-- Only an unsubscribed contact becomes active again; a bounce or a complaint stays.
UPDATE contacts
SET status = 'active', status_updated_at = :now, status_source = :source
WHERE tenant_id = :tenant_id AND email = :email AND status = 'unsubscribed'
  AND NOT EXISTS (
    SELECT 1 FROM suppressions AS s
    WHERE s.tenant_id = contacts.tenant_id AND s.email = contacts.email AND s.list_key = '*' AND s.reason = 'complaint'
  )
