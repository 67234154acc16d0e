-- Find locked rows that do not state yet what happens to their messages: a message is in doubt, its provider defers it,
-- or no provider can be used.
SELECT l.id, l.tenant_id, l.queue, l.queue_schema, l.notification_id, l.row_key, l.generation,
  l.subscription_id, l.outbox_id, l.state, l.locked_by, l.locked_at, l.attempts_before, l.max_attempts, l.sent_event,
  l.result_at, l.retry_after, l.counted_before, d.attempts - d.excused_attempts AS counted, d.message_key, d.status,
  d.claimable_at, d.defer_reason,
  CASE WHEN d.claimable_at >= :parked THEN 1 ELSE 0 END AS is_parked, d.provider, d.provider_message_id, d.error_code,
  d.error_category, d.error_reason, d.sent_at, d.failed_at, d.in_doubt_since
FROM notification_links AS l
JOIN messages AS m ON m.outbox_id = l.outbox_id
JOIN deliveries AS d ON d.message_key = m.id
WHERE l.queue = :queue AND l.state = 'sending' AND l.id > :after
  AND ((d.status = 'IN_DOUBT' AND COALESCE(l.noted, '') <> 'IN_DOUBT ' || CAST(d.in_doubt_since AS text))
    OR (d.status IN ('PENDING', 'RETRY_SCHEDULED') AND d.claimable_at < :parked
      AND ((d.defer_reason IN ('provider_unavailable', 'provider_throttled') AND d.error_code IS NOT NULL
          AND COALESCE(l.noted, '') <> 'DEFERRED ' || d.error_code)
        OR (d.error_code IS NULL AND CAST(:outage AS text) <> ''
          AND COALESCE(l.noted, '') <> 'DEFERRED ' || CAST(:outage AS text)))))
ORDER BY l.id
LIMIT :limit
