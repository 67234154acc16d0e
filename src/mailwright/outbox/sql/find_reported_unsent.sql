-- Finds the messages that were reported since a time and before they were sent, in the order in which they were accepted.
SELECT m.outbox_id
FROM deliveries AS d
JOIN messages AS m ON m.id = d.message_key
WHERE d.status = 'IN_DOUBT' AND d.error_code = CAST(:error_code AS text) AND d.in_doubt_since > :since
ORDER BY d.message_key
