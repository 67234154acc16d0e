-- Advances the run after a batch. While `enqueue_ended_at` is null, there are more recipients.
UPDATE campaign_runs
SET recipients = recipients + :recipients, skipped = skipped + :skipped, enqueued_to = :enqueued_to,
    enqueue_ended_at = CAST(:enqueue_ended_at AS bigint)
WHERE id = :run_key
