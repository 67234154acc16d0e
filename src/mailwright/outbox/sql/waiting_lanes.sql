-- Counts the waiting messages of a tenant's lanes at one priority, with each lane's deferral. Reads only the index of
-- waiting messages.
SELECT w.lane, w.waiting, w.due, w.earliest, h.defer_reason, h.deferred_until, q.sequence_id, q.name
FROM (
  SELECT lane, count(*) AS waiting, min(claimable_at) AS earliest,
    CAST(sum(CASE WHEN claimable_at <= :now THEN 1 ELSE 0 END) AS bigint) AS due
  FROM deliveries
  WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED') AND lane >= :first AND lane < :beyond
  GROUP BY lane
) AS w
LEFT JOIN lane_deferrals AS h ON h.lane = w.lane AND h.deferred_until > :now
LEFT JOIN sequences AS q ON q.id = w.lane % 268435456 - 134217728
ORDER BY w.lane
