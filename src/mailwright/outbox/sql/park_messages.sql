-- Park messages: no worker sends them until their source releases them.
UPDATE deliveries
SET claimable_at = :parked
FROM rows(:given: message_key bigint) AS g
WHERE deliveries.message_key = g.message_key AND deliveries.status IN ('PENDING', 'RETRY_SCHEDULED')
  AND deliveries.locked_by IS NULL AND deliveries.claimable_at < :parked
RETURNING deliveries.message_key
