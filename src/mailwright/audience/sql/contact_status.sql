SELECT status, locale, consents_to_tracking FROM contacts WHERE tenant_id = :tenant_id AND email = :email
