-- Returns the time and reason of the deferral of a lane's first message that is not due yet.
SELECT claimable_at, COALESCE(defer_reason, CASE status WHEN 'PENDING' THEN 'scheduled' ELSE 'retry_scheduled' END) AS reason
FROM deliveries
WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED') AND lane = :lane
ORDER BY claimable_at, message_key
LIMIT 1
