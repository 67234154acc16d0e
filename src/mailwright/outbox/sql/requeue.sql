-- Resets a message as if it had just been accepted, but keeps its events. If a provider may already have the message,
-- only that provider may get it again.
UPDATE deliveries
SET status = 'PENDING', claimable_at = :now, next_attempt_at = :now, defer_reason = NULL, attempts = 0, excused_attempts = 0, claims = 0,
    claim_token = NULL, locked_by = NULL, locked_at = NULL, provider_message_id = NULL,
    provider = CASE WHEN resends > 0 OR in_doubt_since IS NOT NULL THEN provider END,
    error_code = NULL, error_category = NULL, error_reason = NULL, duration_ms = NULL, failed_at = NULL,
    deferrals = 0, deferred_since = NULL, retry_until = NULL
WHERE message_key = :message_key AND status = 'FAILED'
RETURNING message_key
