UPDATE retention_rules
SET position = :position, finished_at = :finished_at, deleted = deleted + :deleted, bytes = bytes + :bytes
WHERE tenant_id = :tenant_id AND kind = :kind
