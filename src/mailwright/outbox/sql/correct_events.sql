UPDATE events SET metadata = c.metadata
FROM rows(:corrections: event_key bigint, metadata text) AS c
WHERE events.id = c.event_key
