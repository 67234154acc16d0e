-- Counts what retention deletes, in the transaction that deletes it, so that the audit and campaign reports stay right.
INSERT INTO retention_tombstones (tenant_id, kind, day, lane, bucket, deleted, bytes, resends)
SELECT t.tenant_id, t.kind, t.day, t.lane, t.bucket, t.deleted, t.bytes, t.resends
FROM rows(:tombstones: tenant_id bigint, kind text, day bigint, lane bigint, bucket text, deleted bigint, bytes bigint, resends bigint) AS t
WHERE true
ON CONFLICT (tenant_id, kind, day, lane, bucket) DO UPDATE
SET deleted = retention_tombstones.deleted + excluded.deleted, bytes = retention_tombstones.bytes + excluded.bytes,
    resends = retention_tombstones.resends + excluded.resends
