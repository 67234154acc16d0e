INSERT INTO counters (name, used, expires_at) VALUES (:name, 0, :expires_at) ON CONFLICT (name) DO NOTHING
