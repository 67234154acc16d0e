INSERT INTO mailout_logs (message_key, mailout_key, status, is_confirmed)
SELECT r.message_key, CAST(:mailout_key AS bigint), r.status, CAST(:is_confirmed AS boolean)
FROM rows(:lines: message_key bigint, status text) AS r
WHERE true
ON CONFLICT (message_key) DO UPDATE SET status = excluded.status, is_confirmed = excluded.is_confirmed
