-- Forgets the permits of the messages of a claim, which were returned.
UPDATE deliveries SET permits = NULL
WHERE locked_by IS NOT NULL AND claimable_at = :locked_until AND claim_token = :token AND permits IS NOT NULL
