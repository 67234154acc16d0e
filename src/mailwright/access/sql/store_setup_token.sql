-- The newest link is the one that works, also of two processes that start at once.
INSERT INTO installation (name, value) VALUES (:name, :digest)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
