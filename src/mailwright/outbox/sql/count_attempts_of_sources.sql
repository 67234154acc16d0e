-- Counts the messages of these sources that any worker is sending now.
SELECT m.source, count(*) AS in_flight
FROM deliveries AS d
JOIN messages AS m ON m.id = d.message_key
WHERE d.locked_by IS NOT NULL AND d.claimable_at > :now AND d.status = 'SENT_ATTEMPT'
  AND m.source IN (SELECT s.source FROM rows(:sources: source text) AS s)
GROUP BY m.source
