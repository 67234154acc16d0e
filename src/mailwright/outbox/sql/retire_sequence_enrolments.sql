DELETE FROM sequence_enrolments
WHERE id IN (SELECT k.id FROM rows(:keys: id bigint) AS k) AND EXISTS (
  SELECT 1 FROM sequences AS q
  WHERE q.id = sequence_enrolments.sequence_key AND (
    q.status = 'archived' OR q.reentry_days <= 30
  )
) RETURNING *
