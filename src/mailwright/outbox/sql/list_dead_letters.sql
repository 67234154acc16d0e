SELECT
  l.message_key, l.code, l.reason, l.attempts, l.created_at,
  m.outbox_id, m.to_email, COALESCE(d.subject, m.subject) AS subject, m.source, m.request_id
FROM message_dead_letters AS l
JOIN messages AS m ON m.id = l.message_key
JOIN deliveries AS d ON d.message_key = l.message_key
WHERE l.tenant_id = :tenant_id
  AND (l.created_at, l.message_key) < (CAST(:before_time AS bigint), CAST(:before_key AS bigint))
ORDER BY l.created_at DESC, l.message_key DESC
LIMIT :limit
