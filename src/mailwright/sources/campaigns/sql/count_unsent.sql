-- Count the unsent messages of each queued campaign, from partial indexes of unfinished messages.
SELECT e.lane,
  (SELECT count(*) FROM deliveries AS d
   WHERE d.locked_by IS NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED') AND d.lane = e.lane) AS waiting,
  (SELECT count(*) FROM deliveries AS d WHERE d.locked_by IS NOT NULL AND d.lane = e.lane) AS sending,
  (SELECT count(*) FROM deliveries AS d
   WHERE d.locked_by IS NOT NULL AND d.lane = e.lane AND (d.permits IS NOT NULL OR d.status = 'SENT_ATTEMPT')) AS in_flight
FROM queue_entries AS e
WHERE e.completed_at IS NULL
