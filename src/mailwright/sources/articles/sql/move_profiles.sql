-- Counts matching addresses of a batch that may not receive bulk email.
UPDATE profile_reads SET suppressed = suppressed + :suppressed WHERE run_key = :run_key
