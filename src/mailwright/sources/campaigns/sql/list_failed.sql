-- A page of those whose mail failed, in the order in which the audience was met. Whoever left, or was deleted, before
-- their turn is no failure. The first condition is word for word the index's.
SELECT d.message_key, m.to_email, m.outbox_id, d.error_code, d.error_reason, d.attempts, d.failed_at
FROM deliveries AS d
JOIN messages AS m ON m.id = d.message_key
WHERE d.status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED') AND d.lane = :lane AND d.status = 'FAILED'
  AND d.error_code NOT IN ('RECIPIENT_SUPPRESSED', 'RECIPIENT_NOT_FOUND') AND d.message_key > :after
ORDER BY d.message_key
LIMIT :limit
