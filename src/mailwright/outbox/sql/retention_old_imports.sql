-- Finds old, finished imports of a tenant.
SELECT i.id, i.import_id, i.report_bytes + length(i.plan) + length(i.file_name) + 160 AS bytes, 1 AS affected
FROM imports AS i
WHERE i.tenant_id = :tenant_id AND i.finished_at < :before
ORDER BY i.id
LIMIT :limit
