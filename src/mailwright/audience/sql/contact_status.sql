SELECT status, locale FROM contacts WHERE tenant_id = :tenant_id AND email = :email
