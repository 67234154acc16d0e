-- Puts messages in doubt that a provider reported before their first attempt. A person decides about them, see
-- find_in_doubt.sql and mark_proven_sent.sql. Clearing the token stops a worker that has claimed one.
UPDATE deliveries
SET status = 'IN_DOUBT', in_doubt_since = :now, claims = 0, locked_by = NULL, locked_at = NULL, claim_token = NULL,
    claimable_at = :now, defer_reason = NULL,
    error_code = CAST(:error_code AS text), error_category = 'TIMEOUT_ERROR', error_reason = CAST(:error_reason AS text)
FROM rows(:reported: message_key bigint) AS r
WHERE deliveries.message_key = r.message_key
  AND deliveries.attempted_at IS NULL AND deliveries.status IN ('PENDING', 'RETRY_SCHEDULED')
RETURNING deliveries.message_key, deliveries.tenant_id
