-- What the pipeline needs to know of the messages that were just claimed; a row for each, even if the message is gone.
SELECT
  d.message_key, d.tenant_id, d.lane, d.attempts, d.claims, d.resends,
  m.outbox_id, m.source, m.request_id, m.to_email, m.payload, m.template_key, m.retry_policy, m.is_bulk, m.expires_at,
  m.recipient_id, m.external_id, c.email AS contact_email, c.deleted_at AS contact_deleted_at,
  s.reason AS suppressed_because, t.name AS company, t.max_in_flight, m.created_at
FROM deliveries AS d
LEFT JOIN tenants AS t ON t.id = d.tenant_id
LEFT JOIN messages AS m ON m.id = d.message_key AND m.tenant_id = d.tenant_id
LEFT JOIN contacts AS c ON c.id = m.contact_key AND c.tenant_id = m.tenant_id
LEFT JOIN suppressions AS s ON s.tenant_id = m.tenant_id AND s.email = m.to_email
WHERE d.locked_by IS NOT NULL AND d.claimable_at = :locked_until AND d.claim_token = :token
ORDER BY d.lane, d.message_key
