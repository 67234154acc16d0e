-- Whoever was ever on the list stays as they are: nobody who left is put back. Only whoever was still to confirm has done
-- so now, by the word of whoever imports them.
INSERT INTO subscriptions (tenant_id, contact_key, list_key, subscribed_at, source)
SELECT c.tenant_id, c.id, CAST(:list_key AS text), CAST(:now AS bigint), CAST(:source AS text)
FROM rows(:people: email text) AS p
CROSS JOIN contacts AS c
-- Each is looked for by itself: a planner that knows nothing of a young table would rather compare everyone with everyone.
WHERE c.id = (SELECT k.id FROM contacts AS k WHERE k.tenant_id = :tenant_id AND k.email = p.email)
ORDER BY c.id
ON CONFLICT (contact_key, list_key) DO UPDATE SET is_pending = false
WHERE subscriptions.is_pending AND subscriptions.unsubscribed_at IS NULL
