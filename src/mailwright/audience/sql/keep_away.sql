-- Whatever was said of bulk mail to this address before, also at this very moment.
INSERT INTO suppressions (tenant_id, email, list_key, reason, source, created_at)
VALUES (:tenant_id, :email, :list_key, :reason, :source, :now)
ON CONFLICT (tenant_id, email, list_key) DO UPDATE
SET reason = excluded.reason, source = excluded.source, created_at = excluded.created_at
