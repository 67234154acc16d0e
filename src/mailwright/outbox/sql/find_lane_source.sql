-- Finds the source of the messages of the lane of a campaign or a sequence, which all have the same.
SELECT COALESCE(m.source, '') AS source
FROM deliveries AS d
LEFT JOIN messages AS m ON m.id = d.message_key
WHERE d.locked_by IS NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED') AND d.lane = :lane
LIMIT 1
