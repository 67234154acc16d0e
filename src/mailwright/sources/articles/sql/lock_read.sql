-- Locks the read of a run until the end of the transaction, and returns its position.
SELECT p.read_to, p.ended_at, r.enqueue_ended_at
FROM profile_reads AS p JOIN campaign_runs AS r ON r.id = p.run_key
WHERE p.run_key = :run_key for update
