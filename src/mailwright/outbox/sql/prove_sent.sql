-- A provider's own report proves that it has the mail: that ends a doubt, also one that was closed as unknown, and a
-- resend that has not begun.
UPDATE deliveries
SET status = 'SENT', claimable_at = 0, next_attempt_at = NULL, defer_reason = NULL, claims = 0, claim_token = NULL,
    error_code = NULL, error_category = NULL, error_reason = NULL,
    provider_message_id = COALESCE(CAST(:provider_message_id AS text), provider_message_id),
    sent_at = COALESCE(attempted_at, CAST(:now AS bigint))
WHERE message_key = :message_key
  AND locked_by IS NULL
  AND (status IN ('IN_DOUBT', 'CLOSED_UNKNOWN') OR (status = 'RETRY_SCHEDULED' AND doubted_at IS NOT NULL))
RETURNING message_key
