-- Counts the types of properties. An event name has at most :most of them.
INSERT INTO contact_event_properties (tenant_id, name, property, type, events, last_at)
SELECT n.tenant_id, n.name, n.property, n.type, n.events, n.last_at
FROM rows(:properties: tenant_id bigint, name text, property text, type text, events bigint, last_at bigint) AS n
WHERE EXISTS (SELECT 1 FROM contact_event_names AS k WHERE k.tenant_id = n.tenant_id AND k.name = n.name)
  AND (
    EXISTS (
      SELECT 1 FROM contact_event_properties AS p
      WHERE p.tenant_id = n.tenant_id AND p.name = n.name AND p.property = n.property AND p.type = n.type
    )
    OR (
      SELECT count(*) FROM contact_event_properties AS p WHERE p.tenant_id = n.tenant_id AND p.name = n.name
    ) < CAST(:most AS bigint)
  )
ORDER BY n.tenant_id, n.name, n.property, n.type
ON CONFLICT (tenant_id, name, property, type) DO UPDATE
SET events = contact_event_properties.events + excluded.events, last_at = excluded.last_at
