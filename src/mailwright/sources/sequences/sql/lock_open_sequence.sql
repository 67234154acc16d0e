-- Another worker that runs this sequence has locked it.
SELECT id, sequence_id, tenant_id, version, list_key, last_day, events_after, next_entry_at,
  (SELECT t.timezone FROM tenants AS t WHERE t.id = sequences.tenant_id) AS timezone
FROM sequences WHERE id = :sequence_key AND status IN ('running', 'paused') skip locked
