-- Finds runs of a tenant that ended long ago. The re-entry rule of an open sequence needs the runs if people enter once or
-- after more days than the shortest retention period. Of those runs, only the steps are deleted.
SELECT r.id, 150 + 120 * r.steps AS bytes, 1 + r.steps AS affected
FROM (
  SELECT e.id, (SELECT count(*) FROM sequence_steps AS s WHERE s.enrolment_key = e.id) AS steps
  FROM sequence_enrolments AS e
  JOIN sequences AS q ON q.id = e.sequence_key
  WHERE e.tenant_id = :tenant_id AND e.ended_at IS NOT NULL AND e.ended_at < :before AND (
    q.status = 'archived' OR q.reentry_days <= 30 OR EXISTS (SELECT 1 FROM sequence_steps AS s WHERE s.enrolment_key = e.id)
  )
  ORDER BY e.ended_at, e.id
  LIMIT :limit
) AS r
