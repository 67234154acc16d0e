-- Looks for the work of lost workers and for due messages in doubt. Most often there is none, and one read replaces
-- several writing transactions; see `put_in_doubt.sql`, `find_in_doubt.sql` and `claim_suspects.sql`.
SELECT
  EXISTS (
    SELECT 1 FROM deliveries
    WHERE locked_by IS NOT NULL AND claimable_at <= :now AND status = 'SENT_ATTEMPT'
  ) AS has_lost_attempts,
  EXISTS (SELECT 1 FROM deliveries WHERE status = 'IN_DOUBT' AND claimable_at <= :now) AS has_due_doubts,
  EXISTS (
    SELECT 1 FROM deliveries AS d
    WHERE d.locked_by IS NOT NULL AND d.claimable_at <= :now AND d.status IN ('PENDING', 'RETRY_SCHEDULED')
      AND CASE WHEN EXISTS (
        SELECT 1 FROM rows(:pairs: tenant_id bigint, source text) AS p
        WHERE p.tenant_id = d.tenant_id
          AND p.source = COALESCE((SELECT m.source FROM messages AS m WHERE m.id = d.message_key), '')
      ) THEN 1 ELSE 0 END = :is_listed
  ) AS has_suspects
