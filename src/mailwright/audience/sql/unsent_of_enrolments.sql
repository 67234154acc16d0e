SELECT d.message_key, d.tenant_id, d.status
FROM rows(:ended: id bigint) AS n
JOIN sequence_steps AS s ON s.enrolment_key = n.id AND s.outbox_id IS NOT NULL
JOIN messages AS m ON m.outbox_id = s.outbox_id
JOIN deliveries AS d ON d.message_key = m.id
WHERE d.status IN ('PENDING', 'RETRY_SCHEDULED', 'SENT_ATTEMPT', 'IN_DOUBT')
ORDER BY d.message_key
