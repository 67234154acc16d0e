-- Puts messages in doubt whose attempt began, although this database does not know it. The token of the attempt lets a
-- worker that still runs record the response, or withdraw an attempt that was not handed over.
UPDATE deliveries
SET status = 'IN_DOUBT', in_doubt_since = :now, claims = 0, locked_by = NULL, locked_at = NULL,
    claim_token = j.claim_token, claimable_at = :decide_at, defer_reason = NULL, provider = j.provider,
    attempted_at = j.at, error_code = CAST(:error_code AS text), error_category = 'TIMEOUT_ERROR',
    error_reason = CAST(:error_reason AS text)
FROM rows(:attempts: message_key bigint, claim_token bigint, at bigint, provider text) AS j
WHERE deliveries.message_key = j.message_key
  AND status IN ('PENDING', 'RETRY_SCHEDULED') AND coalesce(attempted_at, 0) < j.at
RETURNING deliveries.message_key, deliveries.tenant_id, deliveries.attempts, deliveries.attempted_at,
  deliveries.provider, deliveries.error_code, deliveries.error_reason
