INSERT INTO workers (worker_id, provider, started_at, seen_at, unavailable_until, unavailable_reason, defer_reason,
  per_second, learned_rate, clock_skew, settings_version)
VALUES (:worker, :provider, :now, :now, :unavailable_until, :unavailable_reason, :defer_reason, :per_second,
  :learned_rate, :clock_skew, :settings_version)
ON CONFLICT (worker_id) DO UPDATE
SET seen_at = excluded.seen_at, unavailable_until = excluded.unavailable_until,
    unavailable_reason = excluded.unavailable_reason, defer_reason = excluded.defer_reason,
    per_second = excluded.per_second, learned_rate = excluded.learned_rate, clock_skew = excluded.clock_skew,
    settings_version = excluded.settings_version
