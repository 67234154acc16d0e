-- Existing subscriptions stay as they are, so an import never resubscribes a contact who unsubscribed. A pending
-- subscription becomes confirmed, because the import states that the contacts have confirmed: its answer is the proof.
INSERT INTO subscriptions (tenant_id, contact_key, list_key, subscribed_at, source)
SELECT c.tenant_id, c.id, CAST(:list_key AS text), CAST(:now AS bigint), p.source
FROM rows(:contacts: email text, source text) AS p
CROSS JOIN contacts AS c
-- One lookup per row: without statistics of a young table, the planner would compare all rows with all rows.
WHERE c.id = (SELECT k.id FROM contacts AS k WHERE k.tenant_id = :tenant_id AND k.email = p.email)
ORDER BY c.id
ON CONFLICT (contact_key, list_key) DO UPDATE SET
  is_pending = false, source = excluded.source, subscribed_at = COALESCE(subscriptions.subscribed_at, excluded.subscribed_at)
WHERE subscriptions.is_pending AND subscriptions.unsubscribed_at IS NULL
