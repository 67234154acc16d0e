-- The columns of `claimed_facts`, for a preview that claims nothing.
SELECT
  d.message_key, d.tenant_id, d.lane, d.attempts, d.excused_attempts, d.claims, d.resends, d.deferrals, d.deferred_since, d.retry_until,
  NULL AS only_provider, NULL AS failed_provider, NULL AS suppressed_because,
  m.outbox_id, m.source, m.request_id, m.to_email, m.payload AS payload_json, m.template_key, m.retry_policy, m.is_bulk,
  m.expires_at, m.scheduled_at,
  m.recipient_id, m.external_id, c.email AS contact_email, c.deleted_at AS contact_deleted_at,
  m.list_key, m.content_digest, t.name AS company, t.max_in_flight, m.created_at, m.campaign_key,
  t.tracking AS tenant_tracking, t.tracking_host, l.tracking AS list_tracking, c.consents_to_tracking,
  CASE WHEN m.campaign_key IS NOT NULL THEN c.attributes END AS attributes_json,
  CASE WHEN m.is_bulk THEN c.snoozed_until END AS snoozed_until,
  CASE WHEN m.campaign_key IS NOT NULL THEN c.name END AS contact_name,
  CASE WHEN m.campaign_key IS NOT NULL THEN c.timezone END AS contact_timezone
FROM rows(:wanted: outbox_id text) AS wanted
-- CROSS JOIN fixes the join order for SQLite: without statistics it would scan all messages of the tenant.
CROSS JOIN messages AS m
JOIN deliveries AS d ON d.message_key = m.id
JOIN tenants AS t ON t.id = m.tenant_id
LEFT JOIN contacts AS c ON c.id = m.contact_key
LEFT JOIN lists AS l ON l.tenant_id = m.tenant_id AND l.list_key = m.list_key
WHERE m.outbox_id = wanted.outbox_id AND m.tenant_id = :tenant_id
