-- Replaces any other status, because an operator decided it.
UPDATE contacts
SET status = 'active', status_updated_at = :now, status_source = :source, bounce_type = NULL, bounce_subtype = NULL
WHERE tenant_id = :tenant_id AND email = :email
