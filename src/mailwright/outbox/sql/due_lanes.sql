-- Finds the lanes that have due messages, highest priority first. Each step jumps to the next lane in the index, so the
-- cost depends on the number of lanes with waiting messages, not on the number of messages.
WITH RECURSIVE lanes(lane) AS (
  SELECT min(lane) FROM deliveries WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED')
  UNION ALL
  SELECT (
    SELECT min(d.lane) FROM deliveries AS d
    WHERE d.locked_by IS NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED') AND d.lane > lanes.lane
  )
  FROM lanes WHERE lanes.lane IS NOT NULL
)
SELECT lanes.lane, tenants.weight, tenants.max_in_flight, COALESCE(e.position, e.id, 0) AS place, lanes.due_since
FROM (
  SELECT l.lane, (
    SELECT min(d.claimable_at) FROM deliveries AS d
    WHERE d.locked_by IS NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED') AND d.lane = l.lane
  ) AS due_since
  FROM lanes AS l
) AS lanes
LEFT JOIN queue_entries AS e ON e.id = lanes.lane % 268435456
JOIN tenants ON tenants.id = lanes.lane % 4503599627370496 / 268435456
LEFT JOIN lane_deferrals ON lane_deferrals.lane = lanes.lane AND lane_deferrals.deferred_until > :now
WHERE lane_deferrals.lane IS NULL AND lanes.due_since <= :now
ORDER BY lanes.lane
