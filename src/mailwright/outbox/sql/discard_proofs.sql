-- These messages are sent again from the beginning: earlier reports prove nothing about the next attempt.
UPDATE reports
SET is_proof = false
WHERE is_proof AND message_key IN (SELECT r.message_key FROM rows(:requeued: message_key bigint) AS r)
