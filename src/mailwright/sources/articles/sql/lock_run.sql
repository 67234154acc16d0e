-- How far a run has come, and the last message of anybody; nobody else moves the run before this transaction ends.
SELECT enqueued_to, enqueue_ended_at, (SELECT COALESCE(MAX(id), 0) FROM messages) AS newest
FROM campaign_runs WHERE id = :run_key for update
