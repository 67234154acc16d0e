-- Returns whether the campaign must wait: messages of an earlier campaign of its tenant are due, claimed or being sent,
-- which includes those that wait for their place in a per-second limit. Due ones are read again, because another worker
-- may have released them since the due lanes were read; those of a deferred campaign do not count. Only campaigns that
-- this worker claims count: those of other providers have an order of their own.
SELECT 1 AS found
FROM queue_entries AS mine
JOIN queue_entries AS e ON e.tenant_id = mine.tenant_id AND e.completed_at IS NULL
  AND COALESCE(e.position, e.id) < COALESCE(mine.position, mine.id)
JOIN campaigns AS c ON c.id = e.campaign_key
LEFT JOIN mailouts AS o ON o.mailout_id = c.campaign_id
WHERE mine.id = :entry_id
  AND ((o.id IS NULL AND :has_campaigns = 1) OR (o.id IS NOT NULL AND :has_mailouts = 1))
  AND (
    EXISTS (
      SELECT 1 FROM deliveries AS d
      WHERE d.locked_by IS NOT NULL AND d.lane = e.lane
        AND (d.status IN ('PENDING', 'RETRY_SCHEDULED') OR (d.status = 'SENT_ATTEMPT' AND d.claimable_at > :now))
    ) OR EXISTS (
      SELECT 1 FROM deliveries AS d
      WHERE d.locked_by IS NULL AND d.lane = e.lane AND d.status IN ('PENDING', 'RETRY_SCHEDULED')
        AND d.claimable_at <= :now
        AND NOT EXISTS (SELECT 1 FROM lane_deferrals AS l WHERE l.lane = e.lane AND l.deferred_until > :now)
    )
  )
LIMIT 1
