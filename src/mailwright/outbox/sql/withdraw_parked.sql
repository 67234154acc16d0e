-- Cancel parked messages.
UPDATE deliveries
SET status = 'CANCELLED', claimable_at = 0, next_attempt_at = NULL, defer_reason = NULL
FROM rows(:ended: message_key bigint) AS e
WHERE deliveries.message_key = e.message_key AND deliveries.status IN ('PENDING', 'RETRY_SCHEDULED')
  AND deliveries.locked_by IS NULL AND deliveries.claimable_at >= :parked
RETURNING deliveries.message_key, deliveries.tenant_id
