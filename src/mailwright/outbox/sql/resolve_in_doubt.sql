-- Applies an operator's decision to a batch of a lane's messages in doubt, as `resolve` of the outbox does to one. Expired
-- messages are not sent again. The first condition must match the partial index, which SQLite does not use otherwise.
WITH doubted AS MATERIALIZED (
  SELECT message_key FROM deliveries
  WHERE status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED') AND lane = :lane AND status = 'IN_DOUBT'
    AND (
      CAST(:status AS text) <> 'RETRY_SCHEDULED'
      OR NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.id = deliveries.message_key AND m.expires_at <= :now)
    )
  LIMIT :limit
  for update
)
UPDATE deliveries
SET status = CAST(:status AS text), claimable_at = :now, claims = 0, locked_by = NULL, locked_at = NULL,
    next_attempt_at = CASE WHEN CAST(:status AS text) = 'RETRY_SCHEDULED' THEN CAST(:now AS bigint) END,
    resends = resends + CASE WHEN CAST(:status AS text) = 'RETRY_SCHEDULED' THEN 1 ELSE 0 END,
    attempts = attempts + CASE
      WHEN CAST(:status AS text) = 'RETRY_SCHEDULED' AND claim_token IS NOT NULL
        AND error_code IN ('WORKER_LOST', 'COMMITS_LOST') THEN 1
      ELSE 0
    END,
    excused_attempts = excused_attempts + CASE
      WHEN CAST(:status AS text) = 'RETRY_SCHEDULED' AND claim_token IS NOT NULL
        AND error_code IN ('WORKER_LOST', 'COMMITS_LOST') THEN 1
      ELSE 0
    END,
    claim_token = CASE WHEN CAST(:status AS text) = 'RETRY_SCHEDULED' THEN claim_token END,
    sent_at = CASE WHEN CAST(:status AS text) = 'SENT' THEN coalesce(attempted_at, CAST(:now AS bigint)) END
FROM doubted
WHERE deliveries.message_key = doubted.message_key
RETURNING deliveries.message_key, tenant_id
