-- Stores the position of a pass. The end of the last complete pass stays until the next one ends.
UPDATE retention_rules
SET position = :position, finished_at = COALESCE(CAST(:finished_at AS bigint), finished_at),
    deleted = deleted + :deleted, bytes = bytes + :bytes
WHERE tenant_id = :tenant_id AND kind = :kind
