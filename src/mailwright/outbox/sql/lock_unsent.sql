-- Locks messages that are not known to be sent. A transaction that begins or settles one of them waits, and then sees
-- the proof.
SELECT d.message_key FROM deliveries AS d
WHERE d.status <> 'SENT' AND d.message_key IN (SELECT p.message_key FROM rows(:proofs: message_key bigint) AS p)
ORDER BY d.message_key
for update
