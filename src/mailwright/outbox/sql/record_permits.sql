-- Records which counters have permits of these claimed messages, or that they have none any more (`permits` is null).
UPDATE deliveries SET permits = :permits
FROM rows(:claims: message_key bigint, claim_token bigint) AS held
WHERE deliveries.message_key = held.message_key AND deliveries.claim_token = held.claim_token
  AND deliveries.status IN ('PENDING', 'RETRY_SCHEDULED')
  AND (CAST(:permits AS text) IS NOT NULL OR deliveries.permits IS NOT NULL)
