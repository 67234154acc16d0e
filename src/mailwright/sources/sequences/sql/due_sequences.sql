SELECT q.id FROM sequences AS q
WHERE q.status = 'running' AND EXISTS (
  SELECT 1 FROM sequence_enrolments AS e
  WHERE e.sequence_key = q.id AND e.ended_at IS NULL AND e.due_at IS NOT NULL AND e.due_at <= :now
)
ORDER BY q.id
