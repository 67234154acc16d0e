-- Release parked messages, so that workers send them now.
UPDATE deliveries
SET claimable_at = :now, next_attempt_at = :now
FROM rows(:released: message_key bigint) AS r
WHERE deliveries.message_key = r.message_key AND deliveries.status IN ('PENDING', 'RETRY_SCHEDULED')
  AND deliveries.claimable_at >= :parked AND deliveries.locked_by IS NULL
RETURNING deliveries.message_key
