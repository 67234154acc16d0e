SELECT id FROM sequences
WHERE status IN ('running', 'paused') AND events_after IS NOT NULL AND events_after < :up_to
ORDER BY id
