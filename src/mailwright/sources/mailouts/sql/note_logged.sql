INSERT INTO mailout_logs (message_key, mailout_key, status, is_certain)
SELECT r.message_key, CAST(:mailout_key AS bigint), r.status, CAST(:is_certain AS boolean)
FROM rows(:lines: message_key bigint, status text) AS r
WHERE true
ON CONFLICT (message_key) DO UPDATE SET status = excluded.status, is_certain = excluded.is_certain
