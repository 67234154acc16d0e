INSERT INTO hourly_tallies (tenant_id, hour, type, events)
SELECT t.tenant_id, t.minute - t.minute % 3600000, t.type, CAST(sum(t.events) AS bigint)
FROM rows(:tallies: tenant_id bigint, minute bigint, type text, events bigint) AS t
WHERE true
GROUP BY t.tenant_id, t.minute - t.minute % 3600000, t.type
ON CONFLICT (tenant_id, hour, type) DO UPDATE SET events = hourly_tallies.events + excluded.events
