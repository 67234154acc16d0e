-- Finds opens and clicks that another source reported about the same message at about the same time.
SELECT p.key
FROM rows(:reports: key text, message_key bigint, type text, at bigint, source text) AS p
WHERE EXISTS (
  SELECT 1 FROM reports AS r
  WHERE r.message_key = p.message_key AND r.type = p.type AND r.key NOT LIKE p.source || ':%'
    AND r.at BETWEEN p.at - :window AND p.at + :window
)
