-- List the campaigns that are enqueued and not deferred, but none of whose messages is due or being sent, with the time
-- when the first message is due and the reason. The conditions must match the partial indexes.
SELECT e.lane, d.claimable_at, COALESCE(d.defer_reason, 'retry_scheduled') AS defer_reason
FROM queue_entries AS e
JOIN deliveries AS d ON d.message_key = (
  SELECT message_key FROM deliveries
  WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED') AND lane = e.lane
  ORDER BY claimable_at, message_key
  LIMIT 1
)
WHERE e.completed_at IS NULL AND e.enqueue_ended_at IS NOT NULL AND d.claimable_at > :now
  AND NOT EXISTS (SELECT 1 FROM lane_deferrals AS h WHERE h.lane = e.lane AND h.deferred_until > :now)
  AND NOT EXISTS (SELECT 1 FROM deliveries WHERE locked_by IS NOT NULL AND lane = e.lane)
