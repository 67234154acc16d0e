-- All that decides when this message goes, at one moment: its own state, its lane's hold, and its tenant's limit.
SELECT
  m.id, m.outbox_id, m.retry_policy, m.on_doubt, m.scheduled_at, m.expires_at,
  d.status, d.lane, d.claimable_at, d.next_attempt_at, d.defer_reason, d.attempts, d.claims, d.resends, d.locked_by,
  d.attempted_at, d.doubted_at, d.provider, d.error_code, d.error_reason, d.sent_at, d.failed_at,
  t.name AS tenant, t.max_in_flight,
  h.defer_reason AS hold_reason, h.deferred_until AS held_until
FROM messages AS m
JOIN deliveries AS d ON d.message_key = m.id
JOIN tenants AS t ON t.id = m.tenant_id
LEFT JOIN holds AS h ON h.lane = d.lane AND h.deferred_until > :now
WHERE m.outbox_id = :outbox_id
  AND (CAST(:tenant_id AS bigint) IS NULL OR m.tenant_id = CAST(:tenant_id AS bigint))
