-- List a page of messages in doubt, in the order of creation. The first condition must match the partial index.
SELECT d.message_key, m.to_email, m.outbox_id, d.error_code, d.error_reason, d.attempts, d.in_doubt_since AS failed_at
FROM deliveries AS d
JOIN messages AS m ON m.id = d.message_key
WHERE d.status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED') AND d.lane = :lane AND d.status = 'IN_DOUBT'
  AND d.message_key > :after
ORDER BY d.message_key
LIMIT :limit
