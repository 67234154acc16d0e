-- Return the body for which each signature was used first. The update changes nothing: it returns the stored row.
INSERT INTO used_signatures (signature, body, ends_at)
SELECT s.signature, s.body, s.ends_at
FROM rows(:signatures: signature text, body text, ends_at bigint) AS s
WHERE true
-- Insert always in the same order, so that two processes that insert the same signatures cannot deadlock.
ORDER BY s.signature
ON CONFLICT (signature) DO UPDATE SET body = used_signatures.body
RETURNING signature, body
