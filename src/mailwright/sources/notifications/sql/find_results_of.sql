-- Find unrecorded results of given messages, for queues in the same database.
SELECT l.id, l.tenant_id, l.queue, l.queue_schema, l.notification_id, l.row_key, l.generation,
  l.subscription_id, l.outbox_id, l.state, l.locked_by, l.locked_at, l.attempts_before, l.max_attempts, l.sent_event,
  l.result_at, l.retry_after, l.counted_before, d.attempts - d.excused_attempts AS counted, d.message_key, d.status,
  d.claimable_at, d.defer_reason,
  CASE WHEN d.claimable_at >= :parked THEN 1 ELSE 0 END AS is_parked, d.provider, d.provider_message_id, d.error_code,
  d.error_category, d.error_reason, d.sent_at, d.failed_at, d.in_doubt_since
FROM rows(:wanted: outbox_id text) AS w
JOIN notification_links AS l ON l.outbox_id = w.outbox_id
JOIN messages AS m ON m.outbox_id = l.outbox_id
JOIN deliveries AS d ON d.message_key = m.id
WHERE l.queue_schema IS NOT NULL AND l.state = 'sending'
  AND (d.status IN ('SENT', 'FAILED', 'CLOSED_UNKNOWN', 'CANCELLED')
    OR (d.status = 'RETRY_SCHEDULED' AND d.claimable_at >= :parked))
