SELECT d.message_key, d.tenant_id, d.attempts, d.resends, d.in_doubt_since, d.error_code, d.claim_token, m.expires_at,
  -- Exclude messages that may have been sent before a restore, because an operator decides about these.
  CASE WHEN d.error_code IN ('DATABASE_RESTORED', 'REPORTED_UNSENT') THEN 'hold' ELSE m.on_doubt END AS on_doubt,
  -- A report may have arrived while the message was still being sent. Times are not compared: the process that received
  -- the report and the worker may have different clocks.
  d.error_code <> 'REPORTED_UNSENT'
    AND EXISTS (SELECT 1 FROM reports AS r WHERE r.message_key = d.message_key AND r.is_proof) AS is_reported
FROM deliveries AS d
JOIN messages AS m ON m.id = d.message_key
WHERE d.status = 'IN_DOUBT' AND d.claimable_at <= :now
ORDER BY d.claimable_at
LIMIT :limit
