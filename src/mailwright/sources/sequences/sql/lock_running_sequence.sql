-- Another worker that runs this sequence has locked it.
SELECT id, sequence_id, tenant_id, name, version, list_key,
  (SELECT t.timezone FROM tenants AS t WHERE t.id = sequences.tenant_id) AS timezone
FROM sequences WHERE id = :sequence_key AND status = 'running' skip locked
