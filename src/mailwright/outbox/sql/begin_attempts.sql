-- Records an attempt durably before the provider is called. It begins only if this worker still has the lease, and not
-- for a suppressed or snoozed recipient or a lane that was paused, cancelled or closed since the claim. Lanes that reached a limit
-- are not excluded, because claimed messages already have their permits.
UPDATE deliveries
SET status = 'SENT_ATTEMPT', attempted_at = :now, provider = held.provider, settlement = :settlement
FROM rows(:claims: message_key bigint, claim_token bigint, tenant_id bigint, email text,
  list_key text, provider text, is_bulk int) AS held
WHERE deliveries.message_key = held.message_key
  AND deliveries.claim_token = held.claim_token
  AND deliveries.status IN ('PENDING', 'RETRY_SCHEDULED')
  AND NOT EXISTS (
    SELECT 1 FROM suppressions AS s
    WHERE s.tenant_id = held.tenant_id AND s.email = held.email
      AND (s.list_key = '*' OR (held.list_key IS NOT NULL AND s.list_key IN ('general', held.list_key)))
  )
  AND NOT EXISTS (
    -- `+ 0` makes SQLite use the index of snoozed contacts, which is almost empty.
    SELECT 1 FROM contacts AS c
    WHERE held.is_bulk = 1 AND c.email = held.email AND c.snoozed_until > :now AND c.tenant_id + 0 = held.tenant_id
  )
  AND NOT EXISTS (
    SELECT 1 FROM lane_deferrals AS l
    WHERE l.lane = deliveries.lane AND l.deferred_until > :now
      AND l.defer_reason IN ('paused', 'cancelled', 'scheduled', 'schedule_overdue', 'sender_rules', 'outside_hours', 'guard_rails')
  )
