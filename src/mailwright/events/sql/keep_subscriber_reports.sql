-- Stores reports about addresses to which no message was sent. A repeated report changes nothing.
INSERT INTO subscriber_reports (key, email, source, verdict, at, bounce_type, bounce_subtype)
SELECT r.key, r.email, r.source, r.verdict, r.at, r.bounce_type, r.bounce_subtype
FROM rows(:reports: key text, email text, source text, verdict text, at bigint, bounce_type text,
  bounce_subtype text) AS r
WHERE true
ORDER BY r.key
ON CONFLICT (key) DO NOTHING
