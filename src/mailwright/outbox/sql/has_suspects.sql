SELECT 1 AS found FROM deliveries
WHERE locked_by IS NOT NULL AND claimable_at <= :now AND status IN ('PENDING', 'RETRY_SCHEDULED')
LIMIT 1
