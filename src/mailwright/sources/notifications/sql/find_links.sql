-- Find the newest message of each row. The queue name is part of every input row so that SQLite searches the index by
-- row; with a separate parameter it would scan all links of the queue.
SELECT l.id, l.tenant_id, l.queue, l.queue_schema, l.notification_id, l.row_key, l.generation,
  l.subscription_id, l.outbox_id, l.state, l.locked_by, l.locked_at, l.attempts_before, l.max_attempts, l.sent_event,
  l.result_at, l.retry_after, l.counted_before, d.attempts - d.excused_attempts AS counted, d.message_key, d.status,
  d.claimable_at, d.defer_reason,
  CASE WHEN d.claimable_at >= :parked THEN 1 ELSE 0 END AS is_parked, d.provider, d.provider_message_id, d.error_code,
  d.error_category, d.error_reason, d.sent_at, d.failed_at, d.in_doubt_since
FROM rows(:wanted: queue text, row_key text) AS w
JOIN notification_links AS l ON l.queue = w.queue AND l.row_key = w.row_key
JOIN messages AS m ON m.outbox_id = l.outbox_id
JOIN deliveries AS d ON d.message_key = m.id
WHERE l.generation = (
  SELECT MAX(newest.generation) FROM notification_links AS newest
  WHERE newest.queue = l.queue AND newest.row_key = l.row_key)
