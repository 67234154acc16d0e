-- Only the newest setup link is valid, even if two processes start at the same time.
INSERT INTO installation (name, value) VALUES (:name, :digest)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
