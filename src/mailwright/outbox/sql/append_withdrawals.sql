-- Records on the timeline that a message is no longer in doubt, before `release` returns it.
INSERT INTO events (message_key, tenant_id, type, created_at, metadata)
SELECT deliveries.message_key, deliveries.tenant_id, 'RETRY_SCHEDULED', CAST(:now AS bigint),
  '{"reason": "doubt_withdrawn", "willRetry": true, "backoffDelay": 0, "nextAttemptNumber": '
    || (deliveries.attempts + 1) || '}'
FROM rows(:claims: message_key bigint, claim_token bigint) AS held
JOIN deliveries ON deliveries.message_key = held.message_key
WHERE deliveries.claim_token = held.claim_token AND deliveries.status = 'IN_DOUBT'
