-- Records that these bulk messages begin an attempt. Another attempt of the same message is the same send.
INSERT INTO bulk_sends (tenant_id, email, message_key, sent_at)
SELECT s.tenant_id, s.email, s.message_key, CAST(:now AS bigint)
FROM rows(:sends: tenant_id bigint, email text, message_key bigint) AS s
WHERE true
ON CONFLICT (tenant_id, email, message_key) DO UPDATE SET sent_at = excluded.sent_at
