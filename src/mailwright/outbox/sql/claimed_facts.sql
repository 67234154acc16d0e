-- Loads the data that the pipeline needs about the messages that were just claimed. Every claim has a row, even if the
-- message was deleted.
SELECT
  d.message_key, d.tenant_id, d.lane, d.attempts, d.excused_attempts, d.claims, d.resends, d.deferrals, d.deferred_since, d.retry_until,
  CASE WHEN d.resends > 0 OR d.in_doubt_since IS NOT NULL THEN d.provider END AS only_provider,
  CASE WHEN d.defer_reason IN ('provider_unavailable', 'provider_throttled') THEN d.provider END AS failed_provider,
  m.outbox_id, m.source, m.request_id, m.to_email, m.payload AS payload_json, m.template_key, m.retry_policy, m.is_bulk,
  m.expires_at, m.scheduled_at,
  m.recipient_id, m.external_id, c.email AS contact_email, c.deleted_at AS contact_deleted_at,
  m.list_key, m.content_digest, t.name AS company, t.max_in_flight, m.created_at, m.campaign_key,
  t.tracking AS tenant_tracking, t.tracking_host, l.tracking AS list_tracking, c.consents_to_tracking,
  CASE WHEN m.is_bulk THEN c.snoozed_until END AS snoozed_until,
  -- Messages of a campaign share their payload; these columns personalize it.
  CASE WHEN m.campaign_key IS NOT NULL THEN c.attributes END AS attributes_json,
  CASE WHEN m.campaign_key IS NOT NULL THEN c.name END AS contact_name,
  CASE WHEN m.campaign_key IS NOT NULL THEN c.timezone END AS contact_timezone,
  -- `*` suppresses all messages, `general` all bulk messages, and a list key the messages of that list.
  (
    SELECT s.reason FROM suppressions AS s
    WHERE s.tenant_id = m.tenant_id AND s.email = m.to_email
      AND (s.list_key = '*' OR (m.list_key IS NOT NULL AND s.list_key IN ('general', m.list_key)))
    ORDER BY CASE s.list_key WHEN '*' THEN 0 WHEN 'general' THEN 1 ELSE 2 END
    LIMIT 1
  ) AS suppressed_because
FROM deliveries AS d
LEFT JOIN tenants AS t ON t.id = d.tenant_id
-- By key alone: while a table is new, PostgreSQL would read all its rows of the tenant for each message.
LEFT JOIN messages AS m ON m.id = d.message_key
LEFT JOIN contacts AS c ON c.id = m.contact_key
LEFT JOIN lists AS l ON l.tenant_id = m.tenant_id AND l.list_key = m.list_key
WHERE d.locked_by IS NOT NULL AND d.claimable_at = :locked_until AND d.claim_token = :token
ORDER BY d.lane, d.next_attempt_at, d.message_key
