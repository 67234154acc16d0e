-- Finds one message with its state. If the tenant is null, which is for operators only, all tenants are searched.
SELECT
  m.id, m.outbox_id, m.tenant_id, t.name AS tenant, m.source, m.request_id, m.to_email, m.recipient_id, m.external_id,
  COALESCE(d.subject, m.subject) AS subject, m.payload, m.created_at, m.scheduled_at, m.expires_at,
  d.status, d.claimable_at, d.defer_reason,
  CASE
    WHEN d.status NOT IN ('PENDING', 'RETRY_SCHEDULED') THEN d.next_attempt_at
    WHEN l.deferred_until >= 253370764800000 THEN NULL
    WHEN l.deferred_until > CASE WHEN d.locked_by IS NULL THEN d.claimable_at ELSE d.next_attempt_at END THEN l.deferred_until
    WHEN d.locked_by IS NULL THEN d.claimable_at
    ELSE d.next_attempt_at
  END AS next_attempt_at,
  d.attempts, d.provider, d.provider_message_id,
  CASE WHEN d.provider = 'ses' OR EXISTS (SELECT 1 FROM provider_configurations AS c WHERE c.name = d.provider AND c.kind = 'ses')
    THEN d.provider_message_id END AS ses_message_id,
  d.error_code, d.error_category, d.error_reason, d.duration_ms, d.sent_at, d.failed_at, d.bounced_at
FROM messages AS m
JOIN deliveries AS d ON d.message_key = m.id
JOIN tenants AS t ON t.id = m.tenant_id
LEFT JOIN lane_deferrals AS l ON l.lane = d.lane
WHERE m.outbox_id = :outbox_id
  AND (CAST(:tenant_id AS bigint) IS NULL OR m.tenant_id = CAST(:tenant_id AS bigint))
