-- Counts the waiting emails of running sequences by the hour in which they are due. Hour 0 stands for those that are due.
SELECT w.tenant_id, w.hour, min(w.claimable_at) AS due_at, count(*) AS emails
FROM (
  SELECT q.tenant_id, d.claimable_at, CASE WHEN d.claimable_at > :now THEN d.claimable_at / 3600000 ELSE 0 END AS hour
  FROM sequences AS q
  JOIN deliveries AS d ON d.lane = :first_lane + q.tenant_id * 268435456 + q.id
  WHERE q.status = 'running' AND d.locked_by IS NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED')
    AND d.claimable_at <= :until
) AS w
GROUP BY w.tenant_id, w.hour
