-- A comparison in the future is from a clock that was ahead.
SELECT id FROM sequences
WHERE status IN ('running', 'paused') AND (compared_at IS NULL OR compared_at <= :before OR compared_at > :now)
ORDER BY id
