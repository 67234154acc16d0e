-- Counts the people in running sequences by their step and the hour in which it is due. Hour 0 stands for those that are due.
-- At an email, people wait only for their consent.
SELECT w.sequence_key, w.node, w.is_waiting, w.hour, min(w.due_at) AS due_at, count(*) AS people
FROM (
  SELECT e.sequence_key, e.node, e.due_at,
    CASE WHEN e.waits_since IS NOT NULL AND e.due_at > :now THEN 1 ELSE 0 END AS is_waiting, CASE WHEN e.due_at > :now THEN e.due_at / 3600000 ELSE 0 END AS hour
  FROM sequences AS q
  JOIN sequence_enrolments AS e ON e.sequence_key = q.id
  WHERE q.status = 'running' AND e.ended_at IS NULL AND e.due_at IS NOT NULL AND e.due_at <= :until AND NOT e.skips_email
) AS w
GROUP BY w.sequence_key, w.node, w.is_waiting, w.hour
