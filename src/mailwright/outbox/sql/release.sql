-- Gives back what was claimed but never handed to a provider, as if it had not been claimed.
UPDATE deliveries
SET status = CASE
      WHEN status <> 'SENT_ATTEMPT' THEN status
      WHEN attempts > 0 OR resends > 0 THEN 'RETRY_SCHEDULED'
      ELSE 'PENDING'
    END,
    claimable_at = CASE WHEN held.due_at > next_attempt_at THEN held.due_at ELSE next_attempt_at END,
    claims = claims - 1, claim_token = NULL, locked_by = NULL, locked_at = NULL
FROM rows(:claims: message_key bigint, claim_token bigint, due_at bigint) AS held
WHERE deliveries.message_key = held.message_key
  AND deliveries.claim_token = held.claim_token
  AND deliveries.locked_by IS NOT NULL
  AND deliveries.status IN ('PENDING', 'RETRY_SCHEDULED', 'SENT_ATTEMPT')
RETURNING deliveries.message_key
