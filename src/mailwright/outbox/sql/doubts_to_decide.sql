SELECT d.message_key, d.tenant_id, d.attempts, d.resends, d.in_doubt_since, m.on_doubt, m.expires_at,
  -- A report may have come while the mail was still being sent, before there was a doubt. Whose clock said when is not
  -- asked: whoever took the report and whoever made the attempt may have clocks that differ.
  EXISTS (SELECT 1 FROM reports AS r WHERE r.message_key = d.message_key AND r.is_proof) AS is_reported
FROM deliveries AS d
JOIN messages AS m ON m.id = d.message_key
WHERE d.status = 'IN_DOUBT' AND d.claimable_at <= :now
ORDER BY d.claimable_at
LIMIT :limit
