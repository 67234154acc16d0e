-- Attempts whose worker's lock has ended: nobody knows whether the provider has the mail. The token stays, so that a
-- worker that was only slow can still bring its result.
WITH expired AS MATERIALIZED (
  SELECT message_key FROM deliveries
  WHERE status = 'SENT_ATTEMPT' AND claimable_at <= :now
  ORDER BY claimable_at
  LIMIT :limit
  skip locked
)
UPDATE deliveries
SET status = 'IN_DOUBT', doubted_at = :now, claimable_at = :decide_at, claims = 0, locked_at = NULL,
    error_code = 'WORKER_LOST', error_category = 'TIMEOUT_ERROR',
    error_reason = 'The worker ended between handing the mail over and recording the answer.'
FROM expired
WHERE deliveries.message_key = expired.message_key
RETURNING deliveries.message_key, tenant_id, attempts, attempted_at, locked_by
