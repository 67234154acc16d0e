-- Serializes workers that begin attempts for the same limit, so that two of them do not count the same free places.
-- Writing the row locks it. The order prevents deadlocks.
INSERT INTO counters (name, used, expires_at)
SELECT l.name, 0, CAST(:expires_at AS bigint) FROM rows(:locks: name text) AS l
WHERE true
ORDER BY l.name
ON CONFLICT (name) DO UPDATE SET expires_at = excluded.expires_at
