-- Records an attempt durably before the provider is called: only for messages that this worker still has a lease on, and
-- never for suppressed recipients.
UPDATE deliveries
SET status = 'SENT_ATTEMPT', attempted_at = :now, provider = held.provider, settlement = :settlement
FROM rows(:claims: message_key bigint, claim_token bigint, tenant_id bigint, email text,
  list_key text, provider text) AS held
WHERE deliveries.message_key = held.message_key
  AND deliveries.claim_token = held.claim_token
  AND deliveries.status IN ('PENDING', 'RETRY_SCHEDULED')
  AND NOT EXISTS (
    SELECT 1 FROM suppressions AS s
    WHERE s.tenant_id = held.tenant_id AND s.email = held.email
      AND (s.list_key = '*' OR (held.list_key IS NOT NULL AND s.list_key IN ('general', held.list_key)))
  )
