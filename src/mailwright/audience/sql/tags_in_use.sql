-- Jumps from tag to tag along the index: the cost depends on the number of tags, not on the number of contacts.
WITH RECURSIVE used(tag) AS (
  SELECT min(tag) FROM contact_tags WHERE tenant_id = :tenant_id
  UNION ALL
  SELECT (SELECT min(t.tag) FROM contact_tags AS t WHERE t.tenant_id = :tenant_id AND t.tag > u.tag)
  FROM used AS u
  WHERE u.tag IS NOT NULL
)
SELECT tag FROM used WHERE tag IS NOT NULL LIMIT :limit
