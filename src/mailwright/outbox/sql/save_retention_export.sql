INSERT INTO retention_exports (file, tenant_id, kind, host, bytes, exported, created_at, updated_at)
VALUES (:file, :tenant_id, :kind, :host, :bytes, :exported, :now, :now)
ON CONFLICT (file) DO UPDATE
SET bytes = excluded.bytes, exported = retention_exports.exported + excluded.exported, updated_at = excluded.updated_at
