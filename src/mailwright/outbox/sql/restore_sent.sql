-- Marks messages as sent whose response was recorded, but not in this database. Clearing the token stops a worker that
-- has claimed one of them again.
UPDATE deliveries
SET status = 'SENT', claimable_at = 0, next_attempt_at = NULL, defer_reason = NULL, attempts = attempts + 1, claims = 0,
    claim_token = NULL, locked_by = NULL, locked_at = NULL, provider = coalesce(j.provider, deliveries.provider),
    attempted_at = j.at, sent_at = j.at, error_code = NULL, error_category = NULL, error_reason = NULL, failed_at = NULL,
    in_doubt_since = NULL
FROM rows(:attempts: message_key bigint, at bigint, provider text) AS j
WHERE deliveries.message_key = j.message_key
  AND status IN ('PENDING', 'RETRY_SCHEDULED', 'SENT_ATTEMPT', 'IN_DOUBT', 'CLOSED_UNKNOWN')
RETURNING deliveries.message_key, deliveries.tenant_id, deliveries.attempts
