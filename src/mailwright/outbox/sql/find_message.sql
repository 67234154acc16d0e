-- Finds one message with its state. If the tenant is null, which is for operators only, all tenants are searched.
SELECT
  m.id, m.outbox_id, m.tenant_id, t.name AS tenant, m.source, m.request_id, m.to_email, m.recipient_id, m.external_id,
  COALESCE(d.subject, m.subject) AS subject, m.payload, m.created_at, m.scheduled_at, m.expires_at,
  d.status, d.claimable_at, d.next_attempt_at, d.defer_reason, d.attempts, d.provider, d.provider_message_id,
  CASE WHEN d.provider = 'ses' OR EXISTS (SELECT 1 FROM provider_configurations AS c WHERE c.name = d.provider AND c.kind = 'ses')
    THEN d.provider_message_id END AS ses_message_id,
  d.error_code, d.error_category, d.error_reason, d.duration_ms, d.sent_at, d.failed_at, d.bounced_at
FROM messages AS m
JOIN deliveries AS d ON d.message_key = m.id
JOIN tenants AS t ON t.id = m.tenant_id
WHERE m.outbox_id = :outbox_id
  AND (CAST(:tenant_id AS bigint) IS NULL OR m.tenant_id = CAST(:tenant_id AS bigint))
