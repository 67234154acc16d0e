-- Puts messages in doubt that were accepted before the hold and were due or being sent when it began, because they may
-- have been sent after the backup. Messages that a provider has reported were sent. With :only_reported, only these are
-- changed. None is resent automatically, see find_in_doubt.sql.
WITH due AS MATERIALIZED (
  SELECT d.message_key FROM deliveries AS d
  JOIN messages AS m ON m.id = d.message_key
  WHERE (
      d.status IN ('PENDING', 'RETRY_SCHEDULED') AND d.next_attempt_at <= :since
      OR d.status IN ('SENT_ATTEMPT', 'IN_DOUBT') AND coalesce(d.error_code, '') <> CAST(:error_code AS text)
    )
    AND m.created_at <= :since
    AND (:only_reported = 0 OR EXISTS (SELECT 1 FROM reports AS r WHERE r.message_key = d.message_key AND r.is_proof))
  ORDER BY d.message_key
  LIMIT :limit
)
UPDATE deliveries
SET status = 'IN_DOUBT', in_doubt_since = :now, claims = 0, locked_by = NULL, locked_at = NULL, claim_token = NULL,
    claimable_at = :now, defer_reason = NULL,
    error_code = CAST(:error_code AS text), error_category = 'TIMEOUT_ERROR', error_reason = CAST(:error_reason AS text)
FROM due
WHERE deliveries.message_key = due.message_key
RETURNING deliveries.message_key, deliveries.tenant_id
