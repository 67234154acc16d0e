-- Applies an operator's decision to a batch of messages that may have been sent before a restore, as `resolve` does to
-- one: to all of them, or to those of a tenant, a source and a campaign. Expired messages are not sent again.
WITH doubted AS MATERIALIZED (
  SELECT message_key FROM deliveries
  WHERE status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED') AND status = 'IN_DOUBT'
    AND error_code IN ('DATABASE_RESTORED', 'COMMITS_LOST')
    AND (
      CAST(:status AS text) <> 'RETRY_SCHEDULED'
      OR NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.id = deliveries.message_key AND m.expires_at <= :now)
    )
    AND (
      CAST(:tenant AS text) IS NULL AND CAST(:source AS text) IS NULL AND CAST(:campaign_id AS text) IS NULL
      OR EXISTS (
        SELECT 1 FROM messages AS m
        JOIN tenants AS t ON t.id = m.tenant_id
        LEFT JOIN campaigns AS c ON c.id = m.campaign_key
        WHERE m.id = deliveries.message_key AND t.name = coalesce(CAST(:tenant AS text), t.name)
          AND m.source = coalesce(CAST(:source AS text), m.source)
          AND coalesce(c.campaign_id, '') = coalesce(CAST(:campaign_id AS text), c.campaign_id, '')
      )
    )
  LIMIT :limit
  for update
)
UPDATE deliveries
SET status = CAST(:status AS text), claimable_at = :now, claims = 0, locked_by = NULL, locked_at = NULL,
    next_attempt_at = CASE WHEN CAST(:status AS text) = 'RETRY_SCHEDULED' THEN CAST(:now AS bigint) END,
    resends = resends + CASE WHEN CAST(:status AS text) = 'RETRY_SCHEDULED' THEN 1 ELSE 0 END,
    attempts = attempts + CASE
      WHEN CAST(:status AS text) = 'RETRY_SCHEDULED' AND claim_token IS NOT NULL AND error_code = 'COMMITS_LOST' THEN 1
      ELSE 0
    END,
    excused_attempts = excused_attempts + CASE
      WHEN CAST(:status AS text) = 'RETRY_SCHEDULED' AND claim_token IS NOT NULL AND error_code = 'COMMITS_LOST' THEN 1
      ELSE 0
    END,
    claim_token = NULL
FROM doubted
WHERE deliveries.message_key = doubted.message_key
RETURNING deliveries.message_key, tenant_id
