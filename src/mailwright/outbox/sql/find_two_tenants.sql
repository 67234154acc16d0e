-- Two are enough to know that there is more than one.
SELECT id FROM tenants ORDER BY id LIMIT 2
