-- Return a row only for the first use.
INSERT INTO used_challenges (digest, ends_at) VALUES (:digest, :ends_at)
ON CONFLICT (digest) DO NOTHING
RETURNING digest
