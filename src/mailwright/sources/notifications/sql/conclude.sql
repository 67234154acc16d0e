-- Record the end of attempts that will be retried, once each: writing the same result again changes nothing.
UPDATE notification_links
SET completed_attempts = c.attempt, result_at = c.at, retry_after = c.retry_after
FROM rows(:concluded: outbox_id text, attempt int, at bigint, retry_after bigint) AS c
JOIN messages AS m ON m.outbox_id = c.outbox_id
JOIN deliveries AS d ON d.message_key = m.id
WHERE notification_links.outbox_id = c.outbox_id AND notification_links.completed_attempts < c.attempt
  AND d.attempts = c.attempt AND d.status = 'RETRY_SCHEDULED' AND d.locked_by IS NULL AND d.defer_reason IS NULL
RETURNING notification_links.outbox_id, notification_links.result_at, notification_links.state,
  notification_links.attempts_before, notification_links.counted_before, notification_links.max_attempts
