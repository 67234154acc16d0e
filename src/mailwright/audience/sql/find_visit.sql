-- Finds the time of the unsubscribe by a visit, unless another unsubscribe has confirmed it.
SELECT s.created_at FROM suppressions AS s
WHERE s.tenant_id = :tenant_id AND s.email = :email AND s.list_key = :list_key AND s.reason = 'unsubscribed'
  AND s.source = 'visit'
