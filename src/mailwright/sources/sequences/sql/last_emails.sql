-- Reads when the latest email of each run left the outbox, or when it may leave. A cancelled one does neither.
SELECT n.id, s.node AS step,
  CASE WHEN d.status NOT IN ('PENDING', 'RETRY_SCHEDULED')
    THEN COALESCE(d.sent_at, d.failed_at, d.attempted_at, d.in_doubt_since, 0)
  END AS left_at,
  CASE WHEN d.locked_by IS NULL THEN d.claimable_at ELSE d.next_attempt_at END AS due_at,
  (SELECT h.deferred_until FROM lane_deferrals AS h WHERE h.lane = d.lane) AS deferred_until
FROM rows(:runs: id bigint) AS n
JOIN sequence_steps AS s ON s.enrolment_key = n.id AND s.visit = (
  SELECT b.visit FROM sequence_steps AS b
  WHERE b.enrolment_key = n.id AND b.kind = 'send' AND b.outcome = 'sent'
  ORDER BY b.visit DESC LIMIT 1
)
JOIN messages AS m ON m.outbox_id = s.outbox_id
JOIN deliveries AS d ON d.message_key = m.id
WHERE d.status <> 'CANCELLED'
