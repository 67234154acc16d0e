-- Counts the people at each wait whose previous email is not sent. Begins with the waiting messages of the lane, of which
-- there are usually few.
SELECT e.node, count(DISTINCT e.id) AS people
FROM deliveries AS d
JOIN messages AS m ON m.id = d.message_key
JOIN contacts AS c ON c.tenant_id = m.tenant_id AND c.email = m.to_email
JOIN sequence_enrolments AS e ON e.contact_key = c.id AND e.sequence_key = :sequence_key
JOIN sequence_steps AS s ON s.enrolment_key = e.id AND s.outbox_id = m.outbox_id
WHERE d.locked_by IS NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED') AND d.lane = :lane
  AND e.ended_at IS NULL AND e.waits_since IS NOT NULL
GROUP BY e.node
