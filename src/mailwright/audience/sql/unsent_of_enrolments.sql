SELECT d.message_key, d.tenant_id, d.status
FROM rows(:ended: id bigint) AS n
-- The range of all visits keeps the planner on the index: without statistics of a young table, it would read all steps.
JOIN sequence_steps AS s ON s.enrolment_key = n.id AND s.visit BETWEEN 1 AND 1000000 AND s.outbox_id IS NOT NULL
JOIN messages AS m ON m.outbox_id = s.outbox_id
JOIN deliveries AS d ON d.message_key = m.id
WHERE d.status IN ('PENDING', 'RETRY_SCHEDULED', 'SENT_ATTEMPT', 'IN_DOUBT')
ORDER BY d.message_key
