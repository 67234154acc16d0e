INSERT INTO counters (name, used, expires_at)
SELECT w.name, 0, w.expires_at FROM rows(:wanted: name text, expires_at bigint) AS w
WHERE true
ORDER BY w.name
ON CONFLICT (name) DO NOTHING
