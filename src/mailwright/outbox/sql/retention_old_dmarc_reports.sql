-- Finds old DMARC reports of a tenant.
SELECT r.id, 300 + 150 * r.found AS bytes, 1 + r.found AS affected
FROM (
  SELECT o.id, (SELECT count(*) FROM dmarc_sources AS d WHERE d.report_key = o.id) AS found
  FROM dmarc_reports AS o
  WHERE o.tenant_id = :tenant_id AND o.ends_at < :before
  ORDER BY o.id
  LIMIT :limit
) AS r
