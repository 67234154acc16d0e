-- For messages that are retried from the beginning, earlier reports no longer count as proof, because they say nothing
-- about the next attempt.
UPDATE reports
SET is_proof = false
WHERE is_proof AND message_key IN (SELECT r.message_key FROM rows(:requeued: message_key bigint) AS r)
