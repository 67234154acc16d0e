UPDATE sequence_enrolments SET ended_at = :now, end_reason = n.reason
FROM rows(:reached: id bigint, reason text) AS n
WHERE sequence_enrolments.id = n.id AND sequence_enrolments.end_reason = 'finished'
