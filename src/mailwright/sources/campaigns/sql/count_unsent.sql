-- What is left of each campaign in line, from indexes that hold only what is not yet done.
SELECT e.lane,
  (SELECT count(*) FROM deliveries AS d
   WHERE d.locked_by IS NULL AND d.status IN ('PENDING', 'RETRY_SCHEDULED') AND d.lane = e.lane) AS waiting,
  (SELECT count(*) FROM deliveries AS d WHERE d.locked_by IS NOT NULL AND d.lane = e.lane) AS sending
FROM queue_entries AS e
WHERE e.completed_at IS NULL
