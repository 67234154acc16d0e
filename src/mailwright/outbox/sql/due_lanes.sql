-- Finds the lanes that have due messages, highest priority first. Each step jumps to the next lane in the index, so the
-- cost depends on the number of lanes with waiting messages, not on the number of messages. Also finds the campaigns
-- that keep their turn although none of their messages is due: the first one is due within seconds, or the audience is
-- still being enqueued. `source` is that of all messages of the lane; null if the lane has single emails.
WITH RECURSIVE lanes(lane) AS (
  SELECT min(lane) FROM deliveries WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED')
  UNION ALL
  SELECT (
    SELECT min(d.lane) FROM deliveries AS d
    WHERE d.locked_by IS NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED') AND d.lane > lanes.lane
  )
  FROM lanes WHERE lanes.lane IS NOT NULL
)
SELECT lanes.lane, tenants.weight, tenants.max_in_flight, COALESCE(e.position, e.id, 0) AS place, lanes.due_since,
  CASE WHEN lanes.due_since <= :now THEN 1 ELSE 0 END AS is_due,
  CASE WHEN e.status = 'PENDING' THEN 1 ELSE 0 END AS is_pending,
  CASE
    WHEN lanes.lane % 268435456 >= 134217728 THEN 'sequence'
    WHEN o.id IS NOT NULL THEN 'mailout'
    WHEN e.id IS NOT NULL THEN 'campaign'
  END AS source
FROM (
  SELECT l.lane, (
    SELECT min(d.claimable_at) FROM deliveries AS d
    WHERE d.locked_by IS NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED') AND d.lane = l.lane
  ) AS due_since
  FROM lanes AS l
) AS lanes
LEFT JOIN queue_entries AS e ON e.id = lanes.lane % 268435456
LEFT JOIN campaigns AS c ON c.id = e.campaign_key
LEFT JOIN mailouts AS o ON o.mailout_id = c.campaign_id
JOIN tenants ON tenants.id = lanes.lane % 4503599627370496 / 268435456
LEFT JOIN lane_deferrals ON lane_deferrals.lane = lanes.lane AND lane_deferrals.deferred_until > :now
WHERE lane_deferrals.lane IS NULL AND (lanes.due_since <= :now OR (lanes.due_since < :soon AND e.status = 'PROCESSING'))
UNION ALL
SELECT e.lane, tenants.weight, tenants.max_in_flight, COALESCE(e.position, e.id), 0, 0, 0,
  CASE WHEN o.id IS NOT NULL THEN 'mailout' ELSE 'campaign' END
FROM queue_entries AS e
JOIN tenants ON tenants.id = e.tenant_id
JOIN campaigns AS c ON c.id = e.campaign_key
LEFT JOIN mailouts AS o ON o.mailout_id = c.campaign_id
WHERE e.completed_at IS NULL AND e.enqueue_ended_at IS NULL AND e.enqueued_to <> '' AND c.status = 'SENDING'
  AND NOT EXISTS (SELECT 1 FROM lane_deferrals AS l WHERE l.lane = e.lane AND l.deferred_until > :now)
  AND NOT EXISTS (
    SELECT 1 FROM deliveries AS d
    WHERE d.locked_by IS NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED') AND d.lane = e.lane
  )
ORDER BY 1
