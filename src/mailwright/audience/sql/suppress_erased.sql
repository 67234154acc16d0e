-- Replaces any earlier entry for bulk email to this address, also one from a concurrent transaction.
INSERT INTO suppressions (tenant_id, email, list_key, reason, source, created_at)
VALUES (:tenant_id, :email, :list_key, :reason, :source, :now)
ON CONFLICT (tenant_id, email, list_key) DO UPDATE
SET reason = excluded.reason, source = excluded.source, created_at = excluded.created_at
