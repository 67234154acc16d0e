-- The four events of an attempt that succeeded, each with its own time, for those that this settlement settled.
INSERT INTO events (message_key, tenant_id, type, created_at, metadata)
SELECT s.message_key, s.tenant_id, step.type,
  CASE step.position WHEN 1 THEN s.received_at WHEN 2 THEN s.validated_at WHEN 3 THEN s.attempted_at ELSE s.sent_at END,
  CASE step.position WHEN 4 THEN s.outcome ELSE '{"attempt":' || s.attempt || '}' END
FROM rows(:sent: message_key bigint, tenant_id bigint, attempt int, received_at bigint, validated_at bigint,
  attempted_at bigint, sent_at bigint, outcome text) AS s
JOIN deliveries ON deliveries.message_key = s.message_key AND deliveries.settlement = :settlement
CROSS JOIN (
  SELECT 1 AS position, 'RECEIVED' AS type UNION ALL SELECT 2, 'VALIDATED'
  UNION ALL SELECT 3, 'SENT_ATTEMPT' UNION ALL SELECT 4, 'SENT'
) AS step
ORDER BY s.message_key, step.position
