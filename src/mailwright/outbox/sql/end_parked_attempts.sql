-- Park retried messages until their source releases them again. Those with a time of failure have failed.
UPDATE deliveries
SET claimable_at = CASE WHEN e.failed_at IS NULL THEN CAST(:parked AS bigint) ELSE 0 END,
    status = CASE WHEN e.failed_at IS NULL THEN 'RETRY_SCHEDULED' ELSE 'FAILED' END,
    failed_at = e.failed_at,
    next_attempt_at = CASE WHEN e.failed_at IS NULL THEN next_attempt_at END
FROM rows(:ended: outbox_id text, failed_at bigint) AS e
JOIN messages AS m ON m.outbox_id = e.outbox_id
WHERE deliveries.message_key = m.id AND deliveries.status = 'RETRY_SCHEDULED'
RETURNING deliveries.message_key, deliveries.tenant_id, deliveries.status, deliveries.attempts, deliveries.error_code,
  deliveries.error_reason
