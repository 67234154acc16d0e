-- A portion of its readers was met; without a moment in `walk_ended_at` there are more.
UPDATE campaign_runs
SET recipients = recipients + :recipients, skipped = skipped + :skipped, walked_to = :walked_to,
    walk_ended_at = CAST(:walk_ended_at AS bigint)
WHERE id = :run_key
