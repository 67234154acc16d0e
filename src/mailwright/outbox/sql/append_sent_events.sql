-- The four events of an attempt that succeeded, each with its own time.
WITH s AS MATERIALIZED (
  SELECT message_key, tenant_id, attempt, received_at, validated_at, attempted_at, sent_at, outcome
  FROM rows(:sent: message_key bigint, tenant_id bigint, attempt int, received_at bigint, validated_at bigint,
    attempted_at bigint, sent_at bigint, outcome text) AS r
)
INSERT INTO events (message_key, tenant_id, type, created_at, metadata)
SELECT s.message_key, s.tenant_id, step.type,
  CASE step.position WHEN 1 THEN s.received_at WHEN 2 THEN s.validated_at WHEN 3 THEN s.attempted_at ELSE s.sent_at END,
  CASE step.position WHEN 4 THEN s.outcome ELSE '{"attempt":' || s.attempt || '}' END
FROM s
CROSS JOIN (
  SELECT 1 AS position, 'RECEIVED' AS type UNION ALL SELECT 2, 'VALIDATED'
  UNION ALL SELECT 3, 'SENT_ATTEMPT' UNION ALL SELECT 4, 'SENT'
) AS step
ORDER BY s.message_key, step.position
