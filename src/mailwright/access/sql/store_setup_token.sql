-- Only the newest link is valid, also when two processes start at the same time.
INSERT INTO installation (name, value) VALUES (:name, :digest)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
