SELECT w.types FROM webhook_endpoints AS w
WHERE w.tenant_id = :tenant_id AND w.is_active AND w.paused_at IS NULL
