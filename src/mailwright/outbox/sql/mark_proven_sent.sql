-- A provider's report proves that it has the message. It ends the doubt, even after the message was closed as unknown, and
-- any later attempt that waits, failed or is claimed: without its token a worker cannot begin it. A message that was in
-- doubt and was retried from the beginning is still the same message.
UPDATE deliveries
SET status = 'SENT', claimable_at = 0, next_attempt_at = NULL, defer_reason = NULL, claims = 0, claim_token = NULL,
    locked_by = NULL, locked_at = NULL, error_code = NULL, error_category = NULL, error_reason = NULL,
    provider_message_id = COALESCE(p.provider_message_id, deliveries.provider_message_id), failed_at = NULL,
    sent_at = COALESCE(attempted_at, CAST(:now AS bigint))
FROM rows(:proofs: message_key bigint, provider_message_id text) AS p
WHERE deliveries.message_key = p.message_key
  AND (status IN ('IN_DOUBT', 'CLOSED_UNKNOWN')
    OR (status IN ('PENDING', 'RETRY_SCHEDULED', 'FAILED') AND (in_doubt_since IS NOT NULL OR resends > 0)))
RETURNING deliveries.message_key
