-- Delete signatures that are too old to be accepted.
DELETE FROM used_signatures
WHERE signature IN (SELECT signature FROM used_signatures WHERE ends_at < :now ORDER BY ends_at LIMIT :most)
