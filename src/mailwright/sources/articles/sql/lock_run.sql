-- Locks the run until the end of the transaction. Returns its cursor and the newest message key of the outbox.
SELECT enqueued_to, enqueue_ended_at, (SELECT COALESCE(MAX(id), 0) FROM messages) AS newest
FROM campaign_runs WHERE id = :run_key for update
