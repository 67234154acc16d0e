-- List a page of failed messages, in the order of creation. Suppressed and deleted recipients are not failures.
-- The first condition must match the partial index.
SELECT d.message_key, m.to_email, m.outbox_id, d.error_code, d.error_reason, d.attempts, d.failed_at
FROM deliveries AS d
JOIN messages AS m ON m.id = d.message_key
WHERE d.status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED') AND d.lane = :lane AND d.status = 'FAILED'
  AND COALESCE(d.error_code, '') NOT IN ('RECIPIENT_SUPPRESSED', 'RECIPIENT_NOT_FOUND', 'FREQUENCY_CAP', 'RECIPIENT_SNOOZED') AND d.message_key > :after
ORDER BY d.message_key
LIMIT :limit
