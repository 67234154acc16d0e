SELECT id FROM sequences
WHERE tenant_id = :tenant_id AND trigger_kind = 'joinsList' AND trigger_value = :list_key
  AND status IN ('running', 'paused')
LIMIT 1
