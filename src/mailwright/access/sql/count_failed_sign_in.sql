-- Wrong once more; whoever was quiet for long enough begins anew.
INSERT INTO guesses (whom, wrong, last_at, blocked_until)
VALUES (:whom, 1, :now, 0)
ON CONFLICT (whom) DO UPDATE
SET wrong = CASE WHEN guesses.last_at < :forgotten_before THEN 1 ELSE guesses.wrong + 1 END,
    last_at = excluded.last_at
RETURNING wrong
