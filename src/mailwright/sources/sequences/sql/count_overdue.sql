-- Counts the people whose next step is overdue, or whose email was queued before the sequence was paused.
SELECT count(*) AS people
FROM (
  SELECT e.contact_key FROM sequence_enrolments AS e
  WHERE e.sequence_key = :sequence_key AND e.ended_at IS NULL AND e.due_at IS NOT NULL AND e.due_at <= :now
  UNION
  SELECT c.id
  FROM deliveries AS d
  JOIN messages AS m ON m.id = d.message_key
  JOIN contacts AS c ON c.tenant_id = m.tenant_id AND c.email = m.to_email
  WHERE d.locked_by IS NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED') AND d.lane = :lane AND d.claimable_at <= :now
) AS late
