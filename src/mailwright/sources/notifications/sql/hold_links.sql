-- Store the new lock of rows that are locked again for the same message: the result is recorded under that lock.
UPDATE notification_links
SET state = 'sending', locked_by = h.locked_by, locked_at = h.locked_at, attempts_before = h.attempts_before,
    counted_before = h.counted_before, max_attempts = h.max_attempts,
    noted = CASE WHEN h.begins = 1 THEN NULL ELSE noted END,
    result_at = CASE WHEN h.begins = 1 THEN NULL ELSE result_at END,
    retry_after = CASE WHEN h.begins = 1 THEN NULL ELSE retry_after END
FROM rows(:held: id bigint, locked_by text, locked_at text, attempts_before int, counted_before int,
  max_attempts int, begins int) AS h
WHERE notification_links.id = h.id
