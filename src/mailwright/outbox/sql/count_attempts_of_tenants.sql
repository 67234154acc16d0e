-- Counts the messages of these tenants that any worker is sending now.
SELECT tenant_id, count(*) AS in_flight
FROM deliveries
WHERE locked_by IS NOT NULL AND claimable_at > :now AND status = 'SENT_ATTEMPT'
  AND tenant_id IN (SELECT t.tenant_id FROM rows(:tenants: tenant_id bigint) AS t)
GROUP BY tenant_id
