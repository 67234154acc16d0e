-- Stores events, except those of addresses that are being erased, or were erased and are not a contact again.
INSERT INTO contact_events (tenant_id, event_id, email, name, properties, occurred_at, received_at)
SELECT n.tenant_id, n.event_id, n.email, n.name, n.properties, n.occurred_at, CAST(:now AS bigint)
FROM rows(:events: tenant_id bigint, event_id text, email text, name text, properties text, occurred_at bigint,
  position int) AS n
-- Lookups of single values: the planner would turn NOT EXISTS into a join, and read all suppressions for each batch.
WHERE COALESCE(
    (
      SELECT s.source FROM suppressions AS s
      WHERE s.tenant_id = n.tenant_id AND s.email = n.email AND s.list_key = 'general'
    ),
    ''
  ) <> 'erasure'
  OR (SELECT c.id FROM contacts AS c WHERE c.tenant_id = n.tenant_id AND c.email = n.email) IS NOT NULL
    AND (SELECT e.id FROM erasures AS e WHERE e.tenant_id = n.tenant_id AND e.email = n.email) IS NULL
-- Keys are assigned in the order in which the events were submitted.
ORDER BY n.position
ON CONFLICT (event_id, tenant_id) DO NOTHING
