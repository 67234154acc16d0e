-- A recipient ID must belong to a contact of the same tenant. Without a recipient ID, the contact is found by its
-- address, and the contact's ID becomes the external ID.
INSERT INTO messages (
  outbox_id, tenant_id, source, request_id, dedupe_key, body_digest, to_email, contact_key, recipient_id, external_id,
  subject, template_key, payload, retry_policy, on_doubt, is_bulk, list_key, expires_at, scheduled_at,
  content_digest, created_at)
SELECT
  n.outbox_id, n.tenant_id, n.source, n.request_id, n.dedupe_key, n.body_digest, n.to_email,
  CASE WHEN n.recipient_id IS NULL THEN same_email.id WHEN same_id.tenant_id = n.tenant_id THEN same_id.id END,
  n.recipient_id,
  CASE WHEN n.recipient_id IS NULL THEN COALESCE(n.external_id, same_email.contact_id) ELSE n.external_id END,
  n.subject, n.template_key, n.payload, n.retry_policy, n.on_doubt, CAST(n.is_bulk AS boolean), n.list_key,
  n.expires_at, n.scheduled_at, n.content_digest, CAST(:now AS bigint)
FROM rows(:messages: outbox_id text, tenant_id bigint, source text, request_id text, dedupe_key text, body_digest text,
  to_email text, recipient_id text, external_id text, subject text, template_key bigint, payload text,
  retry_policy text, on_doubt text, is_bulk int, list_key text, expires_at bigint, scheduled_at bigint,
  content_digest text, position int) AS n
LEFT JOIN contacts AS same_email ON same_email.tenant_id = n.tenant_id AND same_email.email = n.to_email
-- The tenant is compared above: while the table is new, PostgreSQL would read all contacts of the tenant for each row.
LEFT JOIN contacts AS same_id ON same_id.contact_id = n.recipient_id
WHERE true
ORDER BY n.position
ON CONFLICT (tenant_id, dedupe_key) WHERE dedupe_key IS NOT NULL DO NOTHING
