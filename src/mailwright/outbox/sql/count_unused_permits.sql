-- Counts the permits of one counter that are reserved for messages whose attempts have not begun.
SELECT count(*) AS unused FROM deliveries
WHERE locked_by IS NOT NULL AND status IN ('PENDING', 'RETRY_SCHEDULED') AND permits LIKE :pattern
