-- Requeue a batch of failed messages as if they were just accepted, except those whose content was deleted and those to
-- suppressed addresses, which would be stopped before their next attempt. The events are kept. If a provider may already have a message, only that provider
-- may send it again. The first condition must match the partial index, which SQLite does not use otherwise.
WITH failed AS MATERIALIZED (
  SELECT message_key FROM deliveries
  WHERE status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED') AND lane = :lane AND status = 'FAILED'
    AND COALESCE(error_code, '') NOT IN ('RECIPIENT_SUPPRESSED', 'RECIPIENT_NOT_FOUND', 'FREQUENCY_CAP', 'RECIPIENT_SNOOZED')
    AND NOT EXISTS (
      SELECT 1 FROM messages AS m
      JOIN suppressions AS s ON s.tenant_id = m.tenant_id AND s.email = m.to_email
      WHERE m.id = deliveries.message_key AND s.list_key IN ('*', 'general', m.list_key)
    )
    AND EXISTS (SELECT 1 FROM messages AS m WHERE m.id = deliveries.message_key AND m.payload <> '{}')
  LIMIT :limit
  for update
)
UPDATE deliveries
SET status = 'PENDING', claimable_at = :now, next_attempt_at = :now, defer_reason = NULL, attempts = 0, excused_attempts = 0, claims = 0,
    claim_token = NULL, locked_by = NULL, locked_at = NULL, provider_message_id = NULL,
    provider = CASE WHEN resends > 0 OR in_doubt_since IS NOT NULL THEN provider END,
    error_code = NULL, error_category = NULL, error_reason = NULL, duration_ms = NULL, failed_at = NULL
FROM failed
WHERE deliveries.message_key = failed.message_key
RETURNING deliveries.message_key, tenant_id
