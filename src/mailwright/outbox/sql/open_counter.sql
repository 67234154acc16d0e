-- Creates or locks a counter and extends its life, so that it is not deleted before it is read.
INSERT INTO counters (name, used, expires_at) VALUES (:name, 0, :expires_at)
ON CONFLICT (name) DO UPDATE SET expires_at = excluded.expires_at WHERE counters.expires_at < excluded.expires_at
