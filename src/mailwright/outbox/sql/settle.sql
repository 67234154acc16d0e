-- Writes all results except success. The claim token is checked, so that a worker that lost its lease changes nothing.
UPDATE deliveries
SET status = s.status, claimable_at = s.due_at, next_attempt_at = s.next_attempt_at, defer_reason = s.defer_reason,
    attempts = attempts + s.completed, excused_attempts = excused_attempts + s.excused, claims = 0, claim_token = s.next_token, locked_by = NULL, locked_at = NULL,
    provider = s.provider, provider_message_id = s.provider_message_id, error_code = s.error_code,
    error_category = s.error_category, error_reason = s.error_reason, duration_ms = s.duration_ms,
    sent_at = NULL, failed_at = s.failed_at, in_doubt_since = s.in_doubt_since, settlement = :settlement,
    deferrals = deliveries.deferrals + CASE WHEN s.deferred_at IS NULL THEN 0 ELSE 1 END,
    deferred_since = COALESCE(deliveries.deferred_since, s.deferred_at), retry_until = COALESCE(deliveries.retry_until, s.retry_until),
    subject = COALESCE(s.subject, deliveries.subject)
FROM rows(:settlements: message_key bigint, claim_token bigint, next_token bigint, status text, due_at bigint,
  next_attempt_at bigint, defer_reason text, completed int, excused int, provider text, provider_message_id text, error_code text,
  error_category text, error_reason text, duration_ms int, failed_at bigint, in_doubt_since bigint,
  deferred_at bigint, retry_until bigint, subject text) AS s
WHERE deliveries.message_key = s.message_key
  AND deliveries.claim_token = s.claim_token
  AND deliveries.status IN ('PENDING', 'RETRY_SCHEDULED', 'SENT_ATTEMPT', 'IN_DOUBT')
  -- Only a message with a running attempt may be put in doubt. A message in doubt keeps its token, and could otherwise
  -- be put in doubt again.
  AND (s.status <> 'IN_DOUBT' OR deliveries.status = 'SENT_ATTEMPT')
