-- Finds old reports of a tenant, except soft bounces that still count and proofs of sending for messages that are not
-- settled.
SELECT r.id, length(r.key) + length(COALESCE(r.email, '')) + 60 AS bytes, 1 AS affected
FROM reports AS r
WHERE r.tenant_id = :tenant_id AND r.received_at < :before
  AND (r.verdict <> 'soft_bounce' OR r.at < :counted_since)
  AND NOT (r.is_proof AND EXISTS (
    SELECT 1 FROM deliveries AS d
    WHERE d.message_key = r.message_key AND d.status IN ('PENDING', 'RETRY_SCHEDULED', 'SENT_ATTEMPT', 'IN_DOUBT')
  ))
ORDER BY r.received_at
LIMIT :limit
