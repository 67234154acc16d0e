SELECT 1 FROM deliveries
WHERE claims > 0 AND status IN ('PENDING', 'RETRY_SCHEDULED') AND claimable_at <= :now
LIMIT 1
