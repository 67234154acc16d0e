-- Writes successful results, the most common ones. Only the few columns that differ between rows are parameters. The
-- claim token is checked as in `settle`.
UPDATE deliveries
SET status = 'SENT', claimable_at = 0, next_attempt_at = NULL, defer_reason = NULL, attempts = attempts + s.completed, claims = 0,
    claim_token = NULL, locked_by = NULL, locked_at = NULL, provider = :provider,
    provider_message_id = s.provider_message_id, error_code = NULL, error_category = NULL, error_reason = NULL,
    duration_ms = s.duration_ms, sent_at = :now, failed_at = NULL, in_doubt_since = NULL, settlement = :settlement,
    subject = s.subject
FROM rows(:sent: message_key bigint, claim_token bigint, provider_message_id text, duration_ms int,
  subject text, completed int, is_late int) AS s
WHERE deliveries.message_key = s.message_key
  AND deliveries.claim_token = s.claim_token
  -- The attempt of a late result was put in doubt, and its beginning is already on the timeline.
  AND (s.is_late = 1 OR deliveries.locked_by IS NOT NULL)
  AND deliveries.status IN ('PENDING', 'RETRY_SCHEDULED', 'SENT_ATTEMPT', 'IN_DOUBT')
