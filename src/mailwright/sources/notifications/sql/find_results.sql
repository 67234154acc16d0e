-- Find messages of a queue whose result is not recorded in their rows.
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
  AND (d.status IN ('SENT', 'FAILED', 'CLOSED_UNKNOWN', 'CANCELLED')
    OR (d.status = 'RETRY_SCHEDULED' AND d.claimable_at >= :parked))
ORDER BY l.id
LIMIT :limit
