-- Finds the confirmation emails of ended requests that are not sent yet. Their request IDs name the list.
SELECT d.message_key, d.tenant_id, d.status
FROM rows(:ended: contact_key bigint, list_key text) AS p
CROSS JOIN contacts AS c  -- forces the planner to start with the few given rows
JOIN messages AS m ON m.tenant_id = c.tenant_id AND m.to_email = c.email
JOIN deliveries AS d ON d.message_key = m.id
WHERE c.id = p.contact_key AND m.request_id = CAST(:prefix AS text) || p.list_key || '-' || m.outbox_id
  AND d.status IN ('PENDING', 'RETRY_SCHEDULED', 'SENT_ATTEMPT', 'IN_DOUBT')
ORDER BY d.message_key
