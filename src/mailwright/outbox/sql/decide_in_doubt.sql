-- Skips messages that were resolved in the meantime. Their `in_doubt_since` or status has changed.
UPDATE deliveries
SET status = s.status, claimable_at = s.due_at, next_attempt_at = s.due_at, resends = resends + s.resent,
    -- The attempt of a lost worker has a number, too. Without a token there was no attempt, or it is counted.
    attempts = attempts + CASE
      WHEN s.resent = 1 AND claim_token IS NOT NULL AND error_code IN ('WORKER_LOST', 'COMMITS_LOST') THEN 1 ELSE 0
    END,
    excused_attempts = excused_attempts + CASE
      WHEN s.resent = 1 AND claim_token IS NOT NULL AND error_code IN ('WORKER_LOST', 'COMMITS_LOST') THEN 1 ELSE 0
    END,
    locked_by = NULL, claim_token = CASE WHEN s.status = 'CLOSED_UNKNOWN' THEN NULL ELSE claim_token END
FROM rows(:decisions: message_key bigint, in_doubt_since bigint, status text, due_at bigint, resent int) AS s
WHERE deliveries.message_key = s.message_key
  AND deliveries.status = 'IN_DOUBT'
  AND deliveries.in_doubt_since = s.in_doubt_since
RETURNING deliveries.message_key
