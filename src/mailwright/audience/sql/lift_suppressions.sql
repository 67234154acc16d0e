DELETE FROM suppressions WHERE tenant_id = :tenant_id AND email = :email AND list_key IN ('*', 'general')
