-- Finds the events that already have these IDs.
SELECT e.tenant_id, e.event_id, e.email, e.name, e.properties
FROM rows(:wanted: tenant_id bigint, event_id text) AS w
-- The sum keeps the planner from an index that begins with the tenant: without statistics of a young table, it would read
-- all events of the tenant for each row.
JOIN contact_events AS e ON e.event_id = w.event_id AND e.tenant_id + 0 = w.tenant_id
