-- Finds failed messages, and messages in doubt or of unknown outcome, that are not among the errors of the mailout yet. Recipients
-- that unsubscribed are not failures. The first status condition repeats that of the partial index.
SELECT d.message_key, m.to_email, d.status, d.error_code, d.error_reason, d.attempts, d.provider, d.failed_at
FROM queue_entries AS e
JOIN deliveries AS d ON d.lane = e.lane
JOIN messages AS m ON m.id = d.message_key
WHERE e.campaign_key = CAST(:campaign_key AS bigint)
  AND d.status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED')
  AND (
    d.status IN ('IN_DOUBT', 'CLOSED_UNKNOWN')
    OR (d.status = 'FAILED' AND d.error_code NOT IN ('RECIPIENT_SUPPRESSED', 'RECIPIENT_NOT_FOUND', 'FREQUENCY_CAP', 'RECIPIENT_SNOOZED'))
  )
  AND NOT EXISTS (
    SELECT 1 FROM mailout_errors AS r
    WHERE r.mailout_key = CAST(:mailout_key AS bigint) AND r.key = 'send:' || d.message_key || ':' || d.attempts
  )
ORDER BY d.message_key
LIMIT :limit
