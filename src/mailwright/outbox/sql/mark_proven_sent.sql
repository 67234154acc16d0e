-- Marks messages as sent if a report proves that the provider has them. This applies to messages in doubt, even if they
-- were closed as unknown, and to those that wait for another attempt, have failed or are claimed. Clearing the token
-- prevents a worker from beginning that attempt. Messages that were in doubt and then retried are included.
UPDATE deliveries
SET status = 'SENT', claimable_at = 0, next_attempt_at = NULL, defer_reason = NULL, claims = 0, claim_token = NULL,
    locked_by = NULL, locked_at = NULL, error_code = NULL, error_category = NULL, error_reason = NULL,
    provider_message_id = COALESCE(p.provider_message_id, deliveries.provider_message_id), failed_at = NULL,
    sent_at = COALESCE(attempted_at, CAST(:now AS bigint))
FROM rows(:proofs: message_key bigint, provider_message_id text) AS p
WHERE deliveries.message_key = p.message_key
  -- A person decides about a message that was reported before it was sent.
  AND COALESCE(error_code, '') <> 'REPORTED_UNSENT'
  AND (status IN ('IN_DOUBT', 'CLOSED_UNKNOWN')
    OR (status IN ('PENDING', 'RETRY_SCHEDULED', 'FAILED') AND (in_doubt_since IS NOT NULL OR resends > 0)))
RETURNING deliveries.message_key, deliveries.provider = 'ses' OR EXISTS (
  SELECT 1 FROM provider_configurations AS c WHERE c.name = deliveries.provider AND c.kind = 'ses'
) AS is_ses
