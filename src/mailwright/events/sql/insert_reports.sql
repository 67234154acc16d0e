-- Insert the reports that are not stored yet. A repeated report changes nothing.
INSERT INTO reports (tenant_id, key, message_key, email, type, verdict, at, received_at, is_proof)
SELECT r.tenant_id, r.key, r.message_key, r.email, r.type, r.verdict, r.at, CAST(:now AS bigint),
  CAST(r.is_proof AS boolean)
FROM rows(:reports: tenant_id bigint, key text, message_key bigint, email text, type text, verdict text, at bigint,
  is_proof int) AS r
WHERE true
-- Insert always in the same order, so that two processes that insert the same reports cannot deadlock.
ORDER BY r.tenant_id, r.key
ON CONFLICT (tenant_id, key) DO NOTHING
RETURNING tenant_id, key
