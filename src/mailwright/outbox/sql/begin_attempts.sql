-- The durable mark before a provider is called. Only what this worker still holds, and never someone who has left.
UPDATE deliveries
SET status = 'SENT_ATTEMPT', attempted_at = :now, settlement = :settlement
FROM rows(:claims: message_key bigint, claim_token bigint, tenant_id bigint, email text) AS held
WHERE deliveries.message_key = held.message_key
  AND deliveries.claim_token = held.claim_token
  AND deliveries.status IN ('PENDING', 'RETRY_SCHEDULED')
  AND NOT EXISTS (
    SELECT 1 FROM suppressions WHERE suppressions.tenant_id = held.tenant_id AND suppressions.email = held.email
  )
