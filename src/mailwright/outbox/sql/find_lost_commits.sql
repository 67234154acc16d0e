-- Compares attempts that a process recorded with the database. Returns those whose message, start or response the
-- database does not know, and the messages that were sent again by a later attempt. `state` is 2 if a provider has
-- accepted the message.
SELECT j.message_key, j.state, j.claim_token, j.at, j.outbox_id, j.source, j.provider, d.status, d.tenant_id, d.attempts,
  CASE WHEN m.id IS NULL THEN 1 ELSE 0 END AS is_message_lost,
  CASE WHEN coalesce(d.attempted_at, 0) < j.at THEN 1 ELSE 0 END AS is_attempt_lost
FROM rows(:attempts: message_key bigint, state int, claim_token bigint, at bigint, outbox_id text, source text,
  provider text) AS j
LEFT JOIN messages AS m ON m.id = j.message_key AND m.outbox_id = j.outbox_id
LEFT JOIN deliveries AS d ON d.message_key = m.id
WHERE m.id IS NULL
  OR coalesce(d.attempted_at, 0) < j.at
  OR j.state = 2 AND d.status IN ('PENDING', 'RETRY_SCHEDULED', 'SENT_ATTEMPT', 'IN_DOUBT', 'CLOSED_UNKNOWN')
  -- Sent again after the failover. An attempt is recorded in the database a little later than by its process.
  OR j.state = 2 AND d.status = 'SENT' AND d.resends = 0 AND j.at <= :since AND d.attempted_at > :since + 1000
ORDER BY j.message_key
