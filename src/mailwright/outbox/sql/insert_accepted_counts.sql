INSERT INTO accepted_counts (tenant_id, source, accepted, created_at)
SELECT tenant_id, source, accepted, CAST(:now AS bigint)
FROM rows(:counts: tenant_id bigint, source text, accepted bigint) AS c
