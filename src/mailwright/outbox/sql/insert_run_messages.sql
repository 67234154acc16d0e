-- Contacts that were deleted or changed their address since they were selected get no message. LEFT JOIN and COALESCE
-- make the planner start from the given rows, even if it estimates that the contacts table is small.
INSERT INTO messages (
  outbox_id, tenant_id, source, request_id, to_email, contact_key, recipient_id, subject, template_key, payload,
  retry_policy, on_doubt, is_bulk, list_key, created_at)
SELECT
  n.outbox_id, c.tenant_id, CAST(:source AS text), CAST(:run_id AS text), c.email, c.id, c.contact_id, n.subject,
  n.template_key, n.payload, CAST(:retry_policy AS text), 'hold', true, CAST(:list_key AS text), CAST(:now AS bigint)
FROM rows(:messages: outbox_id text, contact_key bigint, email text, subject text, template_key bigint, payload text)
  AS n
LEFT JOIN contacts AS c ON c.id = n.contact_key AND c.email = n.email AND c.deleted_at IS NULL
WHERE COALESCE(c.id, 0) <> 0
