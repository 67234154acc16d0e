-- Finds since when the oldest due message could have been sent. A limit, a schedule or a pause defers its lane, which is
-- a planned wait and does not count, unlike an outage of a provider. The cost depends on the number of lanes.
WITH RECURSIVE lanes(lane) AS (
  SELECT min(lane) FROM deliveries WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED')
  UNION ALL
  SELECT (
    SELECT min(d.lane) FROM deliveries AS d
    WHERE d.locked_by IS NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED') AND d.lane > lanes.lane
  )
  FROM lanes WHERE lanes.lane IS NOT NULL
),
firsts AS (
  SELECT lanes.lane, (
    SELECT min(d.claimable_at) FROM deliveries AS d
    WHERE d.locked_by IS NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED') AND d.lane = lanes.lane
  ) AS due_at
  FROM lanes WHERE lanes.lane IS NOT NULL
),
sendable AS (
  SELECT CASE WHEN deferred_until > due_at THEN deferred_until ELSE due_at END AS since
  FROM firsts
  LEFT JOIN lane_deferrals ON lane_deferrals.lane = firsts.lane
    AND defer_reason NOT IN ('provider_unavailable', 'provider_throttled')
)
SELECT min(since) AS since FROM sendable WHERE since <= :now
