-- Moves the end of the locks that this worker still has.
UPDATE deliveries
SET claimable_at = :locked_until
FROM rows(:claims: message_key bigint, claim_token bigint) AS held
WHERE deliveries.message_key = held.message_key
  AND deliveries.claim_token = held.claim_token
  AND deliveries.locked_by IS NOT NULL
  AND deliveries.status IN ('PENDING', 'RETRY_SCHEDULED', 'SENT_ATTEMPT')
RETURNING deliveries.message_key
