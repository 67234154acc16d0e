-- Counts the messages of these lanes that any worker is sending now.
SELECT lane, count(*) AS in_flight
FROM deliveries
WHERE locked_by IS NOT NULL AND claimable_at > :now AND status = 'SENT_ATTEMPT'
  AND lane IN (SELECT l.lane FROM rows(:lanes: lane bigint) AS l)
GROUP BY lane
