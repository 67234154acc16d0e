-- Creates or locks counters and extends their life, so that none is deleted before it is read.
INSERT INTO counters (name, used, expires_at)
SELECT w.name, 0, w.expires_at FROM rows(:wanted: name text, expires_at bigint) AS w
WHERE true
ORDER BY w.name
ON CONFLICT (name) DO UPDATE SET expires_at = excluded.expires_at WHERE counters.expires_at < excluded.expires_at
