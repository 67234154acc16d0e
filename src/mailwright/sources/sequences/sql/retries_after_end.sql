-- Finds emails that a worker was sending when their run ended and could not send. Those of open and finished runs stay.
SELECT d.message_key, d.tenant_id, d.status
FROM deliveries AS d
JOIN messages AS m ON m.id = d.message_key
JOIN contacts AS c ON c.tenant_id = m.tenant_id AND c.email = m.to_email
WHERE d.locked_by IS NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED') AND d.status = 'RETRY_SCHEDULED' AND d.lane = :lane
  AND NOT EXISTS (
    SELECT 1 FROM sequence_enrolments AS e
    WHERE e.contact_key = c.id AND e.sequence_key = :sequence_key AND (e.ended_at IS NULL OR e.end_reason = 'finished')
  )
