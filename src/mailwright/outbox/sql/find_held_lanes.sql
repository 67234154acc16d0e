-- Finds the lanes that may not send now, not even messages that are already claimed. `begin_attempts` has the same
-- condition.
SELECT l.lane
FROM rows(:lanes: lane bigint) AS wanted
JOIN lane_deferrals AS l ON l.lane = wanted.lane
WHERE l.deferred_until > :now
  AND l.defer_reason IN ('paused', 'cancelled', 'scheduled', 'schedule_overdue', 'sender_rules', 'outside_hours', 'guard_rails')
