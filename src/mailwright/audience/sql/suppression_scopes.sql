SELECT list_key, reason FROM suppressions WHERE tenant_id = :tenant_id AND email = :email ORDER BY list_key
