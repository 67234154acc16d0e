-- Gives back claimed messages that may not be sent yet. Each has its own deferral and reason.
UPDATE deliveries
SET claimable_at = CASE WHEN held.due_at > next_attempt_at THEN held.due_at ELSE next_attempt_at END,
    defer_reason = held.reason, retry_until = COALESCE(deliveries.retry_until, held.retry_until),
    claims = CASE WHEN claims > 0 THEN claims - 1 ELSE 0 END, claim_token = NULL, locked_by = NULL, locked_at = NULL
FROM rows(:claims: message_key bigint, claim_token bigint, due_at bigint, reason text,
  retry_until bigint) AS held
WHERE deliveries.message_key = held.message_key
  AND deliveries.claim_token = held.claim_token
  AND deliveries.locked_by IS NOT NULL
  AND deliveries.status IN ('PENDING', 'RETRY_SCHEDULED')
