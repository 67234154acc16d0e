SELECT d.message_key, d.tenant_id, d.attempts, d.resends, d.doubted_at, m.on_doubt, m.expires_at
FROM deliveries AS d
JOIN messages AS m ON m.id = d.message_key
WHERE d.status = 'IN_DOUBT' AND d.claimable_at <= :now
ORDER BY d.claimable_at
LIMIT :limit
