-- Finds messages that must wait because an earlier message of their lane has not had its first attempt: a worker has
-- claimed it, or it is due again. Retries and deferred messages have lost their place and delay no other message.
SELECT mine.message_key
FROM rows(:claims: message_key bigint) AS held
JOIN deliveries AS mine ON mine.message_key = held.message_key
WHERE mine.status = 'PENDING' AND mine.defer_reason IS NULL AND (
  EXISTS (
    SELECT 1 FROM deliveries AS d
    WHERE d.locked_by IS NOT NULL AND d.lane = mine.lane AND d.status = 'PENDING' AND d.defer_reason IS NULL
      AND (d.next_attempt_at, d.message_key) < (mine.next_attempt_at, mine.message_key)
  )
  OR EXISTS (
    SELECT 1 FROM deliveries AS d
    WHERE d.locked_by IS NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED') AND d.lane = mine.lane
      AND (d.claimable_at, d.message_key) < (mine.next_attempt_at, mine.message_key)
      AND d.status = 'PENDING' AND d.defer_reason IS NULL
  )
)
