-- Stores recipients that were read from another program's table. An address is stored once; it stays excluded if one of
-- its rows is.
INSERT INTO profile_recipients (run_key, email, name, attributes, is_excluded)
SELECT CAST(:run_key AS bigint), p.email, p.name, p.attributes, CAST(p.is_excluded AS boolean)
FROM rows(:profiles: email text, name text, attributes text, is_excluded boolean) AS p
WHERE true
ON CONFLICT (run_key, email) DO UPDATE SET is_excluded = profile_recipients.is_excluded OR excluded.is_excluded
