-- Applies an operator's decision about a message in doubt. A resend keeps the token, so that a slow worker can still
-- record its response before the message is claimed again.
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
    sent_at = CAST(:sent_at AS bigint)
WHERE message_key = :message_key AND status = 'IN_DOUBT'
RETURNING message_key
