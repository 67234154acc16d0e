-- Marks contacts for a confirmation email: pending, and not asked yet, so without a time. A no in an earlier file does not prevent it,
-- because only the contact can confirm; any other suppression does.
INSERT INTO subscriptions (tenant_id, contact_key, list_key, source, is_pending)
SELECT c.tenant_id, c.id, CAST(:list_key AS text), p.source, true
FROM rows(:contacts: email text, source text) AS p
CROSS JOIN contacts AS c
-- One lookup per row: without statistics of a young table, the planner would compare all rows with all rows.
WHERE c.id = (SELECT k.id FROM contacts AS k WHERE k.tenant_id = :tenant_id AND k.email = p.email)
  AND c.deleted_at IS NULL AND c.status <> 'bounced'
  AND NOT EXISTS (
    SELECT 1 FROM suppressions AS s
    WHERE s.tenant_id = :tenant_id AND s.email = p.email AND s.list_key IN ('*', 'general', CAST(:list_key AS text))
      AND NOT (s.list_key <> '*' AND s.reason = 'unsubscribed' AND s.source LIKE 'import:%')
  )
ORDER BY c.id
ON CONFLICT (contact_key, list_key) DO UPDATE SET is_pending = true, subscribed_at = NULL, source = excluded.source
WHERE subscriptions.unsubscribed_at IS NOT NULL AND NOT subscriptions.is_pending
RETURNING (SELECT k.email FROM contacts AS k WHERE k.id = contact_key) AS email
