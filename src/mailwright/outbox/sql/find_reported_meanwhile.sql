-- Finds messages that wait, have failed or are in doubt, although a report proves that the provider has them.
SELECT d.message_key, d.tenant_id
FROM rows(:wanted: message_key bigint) AS w
JOIN deliveries AS d ON d.message_key = w.message_key
WHERE d.status IN ('PENDING', 'RETRY_SCHEDULED', 'FAILED', 'IN_DOUBT')
  AND EXISTS (SELECT 1 FROM reports AS r WHERE r.message_key = d.message_key AND r.is_proof)
