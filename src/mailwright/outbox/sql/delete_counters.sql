DELETE FROM counters WHERE expires_at <= :now
