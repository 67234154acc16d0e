-- Also clears the claims, so that a worker that has claimed a message can no longer begin to send it.
UPDATE deliveries
SET claimable_at = :due_at, next_attempt_at = :due_at, defer_reason = NULL, claims = 0, claim_token = NULL,
    locked_by = NULL, locked_at = NULL
WHERE message_key IN (SELECT message_key FROM rows(:waiting: message_key bigint) AS n) AND status = 'PENDING'
RETURNING message_key
