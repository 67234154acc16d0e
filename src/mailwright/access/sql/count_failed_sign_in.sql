-- The count starts again at 1 after a long time without a failure.
INSERT INTO failed_sign_ins (subject, failures, last_failed_at, blocked_until)
VALUES (:subject, 1, :now, 0)
ON CONFLICT (subject) DO UPDATE
SET failures = CASE WHEN failed_sign_ins.last_failed_at < :forgotten_before THEN 1 ELSE failed_sign_ins.failures + 1 END,
    last_failed_at = excluded.last_failed_at
RETURNING failures
