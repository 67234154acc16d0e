-- List some of the unsent messages of a campaign with the address and time zone of their recipients.
SELECT m.to_email, c.timezone
FROM deliveries AS d
JOIN messages AS m ON m.id = d.message_key
LEFT JOIN contacts AS c ON c.id = m.contact_key
WHERE d.lane = :lane AND d.locked_by IS NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED')
LIMIT :most
