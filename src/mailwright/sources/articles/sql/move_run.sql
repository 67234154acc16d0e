-- A portion of its readers was met; without a moment in `enqueue_ended_at` there are more.
UPDATE campaign_runs
SET recipients = recipients + :recipients, skipped = skipped + :skipped, enqueued_to = :enqueued_to,
    enqueue_ended_at = CAST(:enqueue_ended_at AS bigint)
WHERE id = :run_key
