-- Returns whether the campaign must wait: messages of an earlier campaign of its tenant are claimed or being sent, which
-- includes those that wait for their place in a per-second limit. Another worker may have released them since the due
-- lanes were read; if `:is_whole` is 1, this worker claims all campaigns of the tenant, and due messages count too.
SELECT 1 AS found
FROM queue_entries AS mine
JOIN queue_entries AS e ON e.tenant_id = mine.tenant_id AND e.completed_at IS NULL
  AND COALESCE(e.position, e.id) < COALESCE(mine.position, mine.id)
WHERE mine.id = :entry_id
  AND NOT EXISTS (SELECT 1 FROM lane_deferrals AS l WHERE l.lane = e.lane AND l.deferred_until > :now)
  AND (
    EXISTS (
      SELECT 1 FROM deliveries AS d
      WHERE d.locked_by IS NOT NULL AND d.lane = e.lane
        AND (d.status IN ('PENDING', 'RETRY_SCHEDULED') OR (d.status = 'SENT_ATTEMPT' AND d.claimable_at > :now))
    ) OR (:is_whole = 1 AND EXISTS (
      SELECT 1 FROM deliveries AS d
      WHERE d.locked_by IS NULL AND d.lane = e.lane AND d.status IN ('PENDING', 'RETRY_SCHEDULED')
        AND d.claimable_at <= :now
    ))
  )
LIMIT 1
