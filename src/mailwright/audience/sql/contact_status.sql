SELECT status, locale, consents_to_tracking, snoozed_until FROM contacts WHERE tenant_id = :tenant_id AND email = :email
