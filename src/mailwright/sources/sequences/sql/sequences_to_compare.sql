SELECT id FROM sequences
WHERE status IN ('running', 'paused') AND (compared_at IS NULL OR compared_at <= :before)
ORDER BY id
