-- Spreads the due messages of a lane evenly over a time span. The factor scatters the keys.
UPDATE deliveries
SET claimable_at = :now + message_key * 2654435761 % CAST(:span AS bigint),
    next_attempt_at = :now + message_key * 2654435761 % CAST(:span AS bigint), defer_reason = 'spread'
WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED') AND lane = :lane AND claimable_at <= :now
