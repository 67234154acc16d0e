-- Locks a rule, unless it was changed or removed meanwhile.
SELECT kind FROM retention_rules
WHERE tenant_id = :tenant_id AND kind = :kind AND days = :days AND exports = CAST(:exports AS boolean)
for update
