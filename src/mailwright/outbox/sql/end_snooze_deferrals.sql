-- Makes the messages due that a pause of their recipient defers, so that the gate decides about them again.
UPDATE deliveries
SET claimable_at = CASE WHEN next_attempt_at > :now THEN next_attempt_at ELSE :now END, defer_reason = NULL
WHERE defer_reason = 'snoozed' AND locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED')
  AND message_key IN (
    SELECT m.id FROM messages AS m WHERE m.tenant_id = :tenant_id AND m.to_email = :email
  )
