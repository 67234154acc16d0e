-- A limit never replaces a pause, a cancellation, a stop by guard rails or the wait for an approval, even if a worker
-- reaches it just afterwards.
INSERT INTO lane_deferrals (lane, defer_reason, deferred_until) VALUES (:lane, :reason, :until)
ON CONFLICT (lane) DO UPDATE SET defer_reason = excluded.defer_reason, deferred_until = excluded.deferred_until
WHERE lane_deferrals.defer_reason NOT IN ('paused', 'cancelled', 'guard_rails', 'awaits_approval')
  OR excluded.defer_reason IN ('paused', 'cancelled')
  OR (excluded.defer_reason = 'guard_rails' AND lane_deferrals.defer_reason = 'awaits_approval')
