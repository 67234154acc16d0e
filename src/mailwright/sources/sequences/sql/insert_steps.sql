INSERT INTO sequence_steps (enrolment_key, visit, version, node, kind, at, outcome, outbox_id)
SELECT n.enrolment_key, n.visit, n.version, n.node, n.kind, n.at, n.outcome, n.outbox_id
FROM rows(:steps: enrolment_key bigint, visit int, version int, node text, kind text, at bigint, outcome text,
  outbox_id text) AS n
WHERE true
