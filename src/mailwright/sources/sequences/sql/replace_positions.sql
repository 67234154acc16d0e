UPDATE sequence_enrolments
SET failure = CASE WHEN sequence_enrolments.node = n.node THEN sequence_enrolments.failure END,
    node = n.node, waits_since = n.waits_since, due_at = n.due_at,
    skips_email = sequence_enrolments.skips_email OR CAST(n.skips_email AS boolean), received_steps = n.received_steps
FROM rows(:moved: id bigint, node text, waits_since bigint, due_at bigint, skips_email int, received_steps text) AS n
WHERE sequence_enrolments.id = n.id AND sequence_enrolments.ended_at IS NULL
