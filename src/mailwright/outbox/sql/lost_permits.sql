-- Counts the permits of messages whose worker was lost before their attempts began.
SELECT permits, count(*) AS messages FROM deliveries
WHERE locked_by IS NOT NULL AND claimable_at = :locked_until AND claim_token = :token AND permits IS NOT NULL
GROUP BY permits
