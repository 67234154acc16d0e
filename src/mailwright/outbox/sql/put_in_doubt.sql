-- Puts attempts in doubt whose lease expired, because it is unknown whether the provider has the message. The token
-- stays, so that a slow worker can still record its result.
WITH expired AS MATERIALIZED (
  SELECT message_key FROM deliveries
  WHERE locked_by IS NOT NULL AND claimable_at <= :now AND status = 'SENT_ATTEMPT'
  ORDER BY claimable_at
  LIMIT :limit
  skip locked
)
UPDATE deliveries
SET status = 'IN_DOUBT', in_doubt_since = :now, claims = 0, locked_by = NULL, locked_at = NULL,
    claimable_at = CASE
      WHEN provider IN (SELECT s.provider FROM rows(:silent: provider text) AS s) THEN CAST(:now AS bigint)
      ELSE CAST(:decide_at AS bigint)
    END,
    error_code = 'WORKER_LOST', error_category = 'TIMEOUT_ERROR',
    error_reason = 'The worker ' || locked_by || ' stopped between sending the message and recording the response.'
FROM expired
WHERE deliveries.message_key = expired.message_key
RETURNING deliveries.message_key, tenant_id, attempts, attempted_at, provider, error_code, error_reason
