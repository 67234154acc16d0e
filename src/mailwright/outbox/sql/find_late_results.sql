-- Finds attempts that were put in doubt before their worker wrote the result. The token is still that of the worker, so
-- nobody has claimed them since.
SELECT d.message_key,
  -- The attempt of a lost worker counts when it is decided to send the message again.
  CASE WHEN d.status = 'RETRY_SCHEDULED' OR d.error_code NOT IN ('WORKER_LOST', 'COMMITS_LOST', 'DATABASE_RESTORED')
    THEN 1 ELSE 0 END AS is_counted,
  -- After a restore, messages are put in doubt that have no events.
  CASE WHEN d.error_code = 'DATABASE_RESTORED' THEN 0 ELSE 1 END AS is_recorded
FROM rows(:claims: message_key bigint, claim_token bigint) AS c
JOIN deliveries AS d ON d.message_key = c.message_key AND d.claim_token = c.claim_token
WHERE d.locked_by IS NULL AND d.in_doubt_since IS NOT NULL AND d.status IN ('IN_DOUBT', 'RETRY_SCHEDULED')
