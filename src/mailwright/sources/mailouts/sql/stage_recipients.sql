-- Adds each recipient once. If an address has several spellings, the first From name is used.
INSERT INTO mailout_recipients (mailout_key, email, from_name)
SELECT CAST(:mailout_key AS bigint), p.email, p.from_name
FROM rows(:people: email text, from_name text) AS p
WHERE true
ON CONFLICT (mailout_key, email) DO UPDATE SET from_name = COALESCE(mailout_recipients.from_name, excluded.from_name)
