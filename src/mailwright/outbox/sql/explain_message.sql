-- Reads everything that decides when this message is sent: its state, the deferral of its lane, its tenant's limits and
-- the campaign that is sent first. Also reads its bounce or complaint, and the suppression that blocks it.
SELECT
  m.id, m.tenant_id, m.outbox_id, m.source, m.to_email, m.retry_policy, m.on_doubt, m.scheduled_at, m.expires_at,
  d.status, d.lane, d.claimable_at, d.next_attempt_at, d.defer_reason, d.attempts, d.excused_attempts, d.claims, d.resends, d.locked_by,
  d.deferrals, d.deferred_since, d.retry_until,
  d.attempted_at, d.in_doubt_since, d.provider, d.error_code, d.error_reason, d.sent_at, d.failed_at,
  t.name AS tenant, t.max_in_flight, t.rate_per_second, t.rate_per_hour, t.daily_limit, t.working_hours, t.warmup_since,
  t.interval_ms, t.one_at_a_time,
  h.defer_reason AS hold_reason, h.deferred_until AS held_until,
  (SELECT e.limits FROM queue_entries AS e WHERE e.campaign_key = m.campaign_key) AS campaign_limits,
  c.campaign_id, c.name AS campaign, c.status AS campaign_status, q.sequence_id, q.name AS sequence,
  (
    SELECT CASE r.verdict WHEN 'nothing' THEN r.type ELSE r.verdict END FROM reports AS r
    WHERE r.message_key = m.id AND r.email = m.to_email
      AND (r.type = 'bounce' OR r.verdict IN ('hard_bounce', 'soft_bounce', 'complaint'))
    ORDER BY CASE r.verdict WHEN 'nothing' THEN 2 WHEN 'soft_bounce' THEN 1 ELSE 0 END, r.at DESC
    LIMIT 1
  ) AS reported_as,
  (
    -- The rule is the same as at the begin of an attempt. A message without a list is transactional; only `*` blocks it.
    SELECT s.list_key FROM suppressions AS s
    WHERE s.tenant_id = m.tenant_id AND s.email = m.to_email
      AND (s.list_key = '*' OR (m.list_key IS NOT NULL AND s.list_key IN ('general', m.list_key)))
    ORDER BY CASE s.list_key WHEN '*' THEN 0 WHEN 'general' THEN 1 ELSE 2 END
    LIMIT 1
  ) AS stopped_by,
  (SELECT k.status FROM contacts AS k WHERE k.tenant_id = m.tenant_id AND k.email = m.to_email) AS contact_status,
  (SELECT k.name FROM contacts AS k WHERE k.tenant_id = m.tenant_id AND k.email = m.to_email) AS contact_name,
  CASE WHEN m.campaign_key IS NOT NULL THEN (
    SELECT before.name
    FROM queue_entries AS e
    JOIN campaigns AS before ON before.id = e.campaign_key
    LEFT JOIN lane_deferrals AS held ON held.lane = e.lane AND held.deferred_until > :now
    WHERE e.tenant_id = m.tenant_id AND e.completed_at IS NULL AND held.lane IS NULL
      AND COALESCE(e.position, e.id) < (
        SELECT COALESCE(mine.position, mine.id) FROM queue_entries AS mine WHERE mine.campaign_key = m.campaign_key
      )
    ORDER BY COALESCE(e.position, e.id)
    LIMIT 1
  ) END AS goes_after
FROM messages AS m
JOIN deliveries AS d ON d.message_key = m.id
JOIN tenants AS t ON t.id = m.tenant_id
LEFT JOIN campaigns AS c ON c.id = m.campaign_key
LEFT JOIN sequences AS q ON m.source = 'sequence' AND q.sequence_id = m.request_id
LEFT JOIN lane_deferrals AS h ON h.lane = d.lane AND h.deferred_until > :now
WHERE m.outbox_id = :outbox_id
  AND (CAST(:tenant_id AS bigint) IS NULL OR m.tenant_id = CAST(:tenant_id AS bigint))
