-- Deletes events that turned out to be wrong. An event of the type `corrected` replaces each of them.
DELETE FROM events WHERE id IN (SELECT c.event_key FROM rows(:corrections: event_key bigint) AS c)
