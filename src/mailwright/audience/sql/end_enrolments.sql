UPDATE sequence_enrolments
SET ended_at = :now, end_reason = n.reason, due_at = NULL, waits_since = NULL, failure = NULL, skips_email = false
FROM rows(:ended: id bigint, reason text) AS n
WHERE sequence_enrolments.id = n.id AND sequence_enrolments.ended_at IS NULL
