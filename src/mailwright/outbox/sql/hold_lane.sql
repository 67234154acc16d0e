INSERT INTO holds (lane, defer_reason, deferred_until) VALUES (:lane, :reason, :until)
ON CONFLICT (lane) DO UPDATE SET defer_reason = excluded.defer_reason, deferred_until = excluded.deferred_until
