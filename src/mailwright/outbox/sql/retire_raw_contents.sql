-- Deletes the bytes of raw emails that no message uses any more. A message that is being accepted renews `created_at`.
DELETE FROM raw_contents
WHERE tenant_id = :tenant_id AND created_at < CAST(:before AS bigint)
  AND digest IN (SELECT k.digest FROM rows(:digests: digest text) AS k)
  AND NOT EXISTS (
    SELECT 1 FROM messages AS m WHERE m.tenant_id = raw_contents.tenant_id AND m.content_digest = raw_contents.digest
  )
RETURNING *
