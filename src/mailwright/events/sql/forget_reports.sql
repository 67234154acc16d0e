-- Delete old reports, except soft bounces that still count and proofs of sending for messages that are not settled. A
-- tenant with a retention rule for reports has its own period.
DELETE FROM reports
WHERE id IN (
  SELECT r.id FROM reports AS r
  WHERE r.received_at < :received_before
    AND (r.verdict <> 'soft_bounce' OR r.at < :counted_since)
    AND NOT (r.is_proof AND EXISTS (
      SELECT 1 FROM deliveries AS d
      WHERE d.message_key = r.message_key AND d.status IN ('PENDING', 'RETRY_SCHEDULED', 'SENT_ATTEMPT', 'IN_DOUBT')
    ))
    AND NOT EXISTS (SELECT 1 FROM retention_rules AS x WHERE x.tenant_id = r.tenant_id AND x.kind = 'reports')
  ORDER BY r.received_at
  LIMIT :most
)
