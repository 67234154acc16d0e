-- Extends the leases that this worker still has. Skips locked rows, because waiting for them could deadlock with the
-- transaction that writes their results.
WITH ours AS MATERIALIZED (
  SELECT deliveries.message_key
  FROM rows(:claims: message_key bigint, claim_token bigint) AS held
  JOIN deliveries ON deliveries.message_key = held.message_key AND deliveries.claim_token = held.claim_token
  WHERE deliveries.locked_by IS NOT NULL AND deliveries.status IN ('PENDING', 'RETRY_SCHEDULED', 'SENT_ATTEMPT')
  skip locked
)
UPDATE deliveries
SET claimable_at = :locked_until
FROM ours
WHERE deliveries.message_key = ours.message_key
RETURNING deliveries.message_key
