-- Claims messages whose lease expired without a result, because one of them may have crashed its worker. Messages with
-- the most claims come first, in ever smaller batches. Among them, transactional messages come first, because a lane's
-- number begins with its priority. `pairs` lists the tenants and sources that the provider of the worker sends, or, for
-- the provider of the installation, those that other providers send.
WITH expired AS MATERIALIZED (
  SELECT d.message_key, d.claims, d.lane FROM deliveries AS d
  WHERE d.locked_by IS NOT NULL AND d.claimable_at <= :now AND d.status IN ('PENDING', 'RETRY_SCHEDULED')
    AND CASE WHEN EXISTS (
      SELECT 1 FROM rows(:pairs: tenant_id bigint, source text) AS p
      WHERE p.tenant_id = d.tenant_id
        AND p.source = COALESCE((SELECT m.source FROM messages AS m WHERE m.id = d.message_key), '')
    ) THEN 1 ELSE 0 END = :is_listed
  ORDER BY d.claims DESC, d.lane, d.message_key
  LIMIT :limit
  skip locked
), due AS MATERIALIZED (
  SELECT message_key FROM expired
  WHERE claims = (SELECT max(claims) FROM expired)
  ORDER BY lane, message_key
  LIMIT CASE (SELECT max(claims) FROM expired) WHEN 1 THEN 125 WHEN 2 THEN 31 WHEN 3 THEN 8 ELSE 1 END
)
UPDATE deliveries
SET claim_token = :token, locked_by = :worker, locked_at = :now, claimable_at = :locked_until,
    claims = deliveries.claims + 1
FROM due
WHERE deliveries.message_key = due.message_key
