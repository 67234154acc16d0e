-- Park retried messages until their row is due and locked again; fail those whose row is closed or has no attempts left.
UPDATE deliveries
SET claimable_at = CASE WHEN l.state = 'closed' OR l.attempts_before + 1 >= l.max_attempts
      THEN 0 ELSE CAST(:parked AS bigint) END,
    status = CASE WHEN l.state = 'closed' OR l.attempts_before + 1 >= l.max_attempts
      THEN 'FAILED' ELSE 'RETRY_SCHEDULED' END,
    failed_at = CASE WHEN l.state = 'closed' OR l.attempts_before + 1 >= l.max_attempts
      THEN l.result_at END,
    next_attempt_at = CASE WHEN l.state = 'closed' OR l.attempts_before + 1 >= l.max_attempts
      THEN NULL ELSE next_attempt_at END
FROM rows(:ended: outbox_id text) AS e
JOIN notification_links AS l ON l.outbox_id = e.outbox_id
JOIN messages AS m ON m.outbox_id = e.outbox_id
WHERE deliveries.message_key = m.id AND deliveries.status = 'RETRY_SCHEDULED'
RETURNING deliveries.message_key, deliveries.tenant_id, deliveries.status, deliveries.attempts, deliveries.error_code,
  deliveries.error_reason
