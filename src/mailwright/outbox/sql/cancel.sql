-- Also clears the claim, so that a worker that has claimed the message can no longer begin to send it.
UPDATE deliveries
SET status = 'CANCELLED', claimable_at = :now, next_attempt_at = NULL, defer_reason = NULL, claims = 0,
    claim_token = NULL, locked_by = NULL, locked_at = NULL
WHERE message_key = :message_key AND status IN ('PENDING', 'RETRY_SCHEDULED')
RETURNING message_key
