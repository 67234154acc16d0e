-- Ends requests to subscribe that are older than an unsubscribe or complaint. Nobody was subscribed, so there is nothing
-- that a resubscription could bring back.
UPDATE subscriptions
SET is_pending = false, subscribed_at = NULL, requested_consent = NULL, unsubscribed_at = f.at, source = f.source
FROM rows(:facts: tenant_id bigint, email text, list_key text, at bigint, source text) AS f
-- One lookup per row: without statistics of a young table, the planner would compare all rows with all rows.
WHERE subscriptions.contact_key = (SELECT k.id FROM contacts AS k WHERE k.tenant_id = f.tenant_id AND k.email = f.email)
  AND (f.list_key IN ('*', 'general') OR subscriptions.list_key = f.list_key)
  AND subscriptions.is_pending AND COALESCE(subscriptions.subscribed_at, 0) <= f.at
RETURNING subscriptions.contact_key AS contact_key, subscriptions.list_key AS list_key
