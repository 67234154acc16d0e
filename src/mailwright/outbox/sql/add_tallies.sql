INSERT INTO tallies (tenant_id, minute, type, events)
SELECT t.tenant_id, t.minute, t.type, t.events
FROM rows(:tallies: tenant_id bigint, minute bigint, type text, events bigint) AS t
WHERE true
ON CONFLICT (tenant_id, minute, type) DO UPDATE SET events = tallies.events + excluded.events
