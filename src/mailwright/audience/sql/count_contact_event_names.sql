-- Counts events by name. A tenant has at most :most names, so that names with an ID in them do not fill the table.
INSERT INTO contact_event_names (tenant_id, name, events, first_at, last_at)
SELECT n.tenant_id, n.name, n.events, n.first_at, n.last_at
FROM rows(:names: tenant_id bigint, name text, events bigint, first_at bigint, last_at bigint) AS n
WHERE EXISTS (SELECT 1 FROM contact_event_names AS k WHERE k.tenant_id = n.tenant_id AND k.name = n.name)
  OR (SELECT count(*) FROM contact_event_names AS k WHERE k.tenant_id = n.tenant_id) < CAST(:most AS bigint)
-- Always in the same order, so that two processes do not deadlock.
ORDER BY n.tenant_id, n.name
ON CONFLICT (tenant_id, name) DO UPDATE
SET events = contact_event_names.events + excluded.events, last_at = excluded.last_at
