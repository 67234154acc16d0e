UPDATE sequence_enrolments
SET node = n.node, visit = n.visit, waits_since = n.waits_since, due_at = n.due_at,
    skips_email = CAST(n.skips_email AS boolean), failure = n.failure
FROM rows(:moved: id bigint, node text, visit int, waits_since bigint, due_at bigint, skips_email int, failure text) AS n
WHERE sequence_enrolments.id = n.id AND sequence_enrolments.ended_at IS NULL
