-- Counts the messages that need an operator, up to a limit.
SELECT
  (SELECT count(*) FROM (
     SELECT 1 FROM deliveries WHERE status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED')
       AND tenant_id = :tenant_id AND status = 'IN_DOUBT' LIMIT :most) AS d) AS in_doubt,
  (SELECT count(*) FROM (SELECT 1 FROM message_dead_letters WHERE tenant_id = :tenant_id LIMIT :most) AS l) AS dead_letters,
  (SELECT count(*) FROM (
     SELECT 1 FROM deliveries WHERE deferred_since IS NOT NULL AND status = 'RETRY_SCHEDULED'
       AND tenant_id = :tenant_id AND deferred_since <= :delayed_since LIMIT :most) AS w) AS delayed,
  (SELECT count(*) FROM deliveries WHERE locked_by IS NOT NULL AND tenant_id = :tenant_id) AS sending
