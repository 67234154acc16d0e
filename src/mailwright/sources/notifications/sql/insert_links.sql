INSERT INTO notification_links (
  tenant_id, queue, queue_schema, notification_id, row_key, generation, subscription_id, outbox_id, state, locked_by,
  locked_at, attempts_before, max_attempts, sent_event, completed_attempts, created_at)
SELECT n.tenant_id, n.queue, n.queue_schema, n.notification_id, n.row_key, n.generation, n.subscription_id, n.outbox_id,
  'sending', n.locked_by, n.locked_at, n.attempts_before, n.max_attempts, n.sent_event, 0, CAST(:now AS bigint)
FROM rows(:links: tenant_id bigint, queue text, queue_schema text, notification_id bigint, row_key text, generation int,
  subscription_id bigint, outbox_id text, locked_by text, locked_at text, attempts_before int, max_attempts int,
  sent_event text) AS n
WHERE true
ON CONFLICT (queue, row_key, generation) DO NOTHING
