-- List the campaigns that have messages whose attempts have not begun. The conditions must match the partial indexes.
SELECT e.lane
FROM queue_entries AS e
WHERE e.completed_at IS NULL AND (
  EXISTS (
    SELECT 1 FROM deliveries
    WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED') AND lane = e.lane
  )
  OR EXISTS (
    SELECT 1 FROM deliveries
    WHERE locked_by IS NOT NULL AND status IN ('PENDING', 'RETRY_SCHEDULED') AND lane = e.lane
  )
)
