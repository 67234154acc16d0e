-- Find the optional column `last_notified_at` of a queue in the same PostgreSQL database.
SELECT column_name FROM information_schema.columns
WHERE table_schema = COALESCE(CAST(:schema AS text), current_schema())
  AND table_name = 'subscriptions' AND column_name = 'last_notified_at'
