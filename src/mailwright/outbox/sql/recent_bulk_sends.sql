-- Lists the bulk messages that these recipients have received, may have received or are receiving since a time. A message
-- that was rejected or waits for another attempt does not count, unless a provider may already have it.
SELECT b.tenant_id, b.email, b.message_key, b.sent_at,
  CASE WHEN d.status = 'SENT_ATTEMPT' AND d.in_doubt_since IS NULL THEN 1 ELSE 0 END AS is_in_flight
FROM rows(:recipients: tenant_id bigint, email text) AS r
JOIN bulk_sends AS b ON b.tenant_id = r.tenant_id AND b.email = r.email AND b.sent_at > :since
LEFT JOIN deliveries AS d ON d.message_key = b.message_key
WHERE d.message_key IS NULL OR d.in_doubt_since IS NOT NULL
  OR d.status IN ('SENT_ATTEMPT', 'SENT', 'IN_DOUBT', 'CLOSED_UNKNOWN')
ORDER BY b.sent_at
