INSERT INTO provider_routes (tenant_id, source, provider, updated_at, updated_by)
VALUES (:tenant_id, :source, :provider, :now, :actor)
ON CONFLICT (tenant_id, source) DO UPDATE
SET provider = excluded.provider, updated_at = excluded.updated_at, updated_by = excluded.updated_by
