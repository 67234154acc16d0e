-- Finds the lanes of archived sequences that have waiting messages.
SELECT :first_lane + q.tenant_id * 268435456 + q.id AS lane FROM sequences AS q
WHERE q.status = 'archived' AND EXISTS (
  SELECT 1 FROM deliveries AS d
  WHERE d.locked_by IS NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED')
    AND d.lane = :first_lane + q.tenant_id * 268435456 + q.id
)
