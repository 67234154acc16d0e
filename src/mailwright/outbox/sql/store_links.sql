INSERT INTO tracked_links (link_id, tenant_id, url, used_at)
SELECT l.link_id, l.tenant_id, l.url, CAST(:now AS bigint)
FROM rows(:links: link_id text, tenant_id bigint, url text) AS l
WHERE true
ON CONFLICT (link_id) DO UPDATE SET used_at = excluded.used_at
