-- Inserts messages of a campaign whose recipients another source selected. Each recipient gets at most one message.
INSERT INTO messages (
  outbox_id, tenant_id, source, request_id, to_email, contact_key, recipient_id, subject, template_key, payload,
  retry_policy, on_doubt, is_bulk, list_key, campaign_key, created_at
)
SELECT
  r.outbox_id, c.tenant_id, CAST(:source AS text), CAST(:campaign_id AS text), c.email, c.id, c.contact_id,
  CAST(:subject AS text), CAST(:template_key AS bigint), r.payload, 'standard', 'hold', true, 'general',
  CAST(:campaign_key AS bigint), CAST(:now AS bigint)
FROM rows(:recipients: outbox_id text, email text, payload text, position int) AS r
JOIN contacts AS c ON c.tenant_id = CAST(:tenant_id AS bigint) AND c.email = r.email
WHERE true
ORDER BY r.position
ON CONFLICT (campaign_key, to_email) WHERE campaign_key IS NOT NULL DO NOTHING
