-- How far a run has come; nobody else moves it before this transaction ends.
SELECT walked_to, walk_ended_at FROM campaign_runs WHERE id = :run_key for update
