UPDATE counters SET used = :used, expires_at = :expires_at WHERE name = :name
