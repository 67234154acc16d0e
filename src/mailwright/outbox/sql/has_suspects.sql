-- Looks for messages whose lease expired without a result; see `claim_suspects.sql`.
SELECT 1 AS found FROM deliveries AS d
WHERE d.locked_by IS NOT NULL AND d.claimable_at <= :now AND d.status IN ('PENDING', 'RETRY_SCHEDULED')
  AND CASE WHEN EXISTS (
    SELECT 1 FROM rows(:pairs: tenant_id bigint, source text) AS p
    WHERE p.tenant_id = d.tenant_id
      AND p.source = COALESCE((SELECT m.source FROM messages AS m WHERE m.id = d.message_key), '')
  ) THEN 1 ELSE 0 END = :is_listed
LIMIT 1
