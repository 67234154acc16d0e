-- The enrolments that a suppression ends: of the sequence's own list, of bulk email or of all email. Locks always in the
-- same order, so that two processes cannot deadlock. The sequence is not locked, because its runner locks it first.
SELECT e.id, f.reason
FROM rows(:facts: tenant_id bigint, email text, list_key text, reason text) AS f
JOIN contacts AS c ON c.tenant_id = f.tenant_id AND c.email = f.email
JOIN sequence_enrolments AS e ON e.contact_key = c.id AND e.ended_at IS NULL
WHERE f.list_key IN ('*', 'general')
  OR f.list_key = (SELECT q.list_key FROM sequences AS q WHERE q.id = e.sequence_key)
ORDER BY e.contact_key, e.id
for update
