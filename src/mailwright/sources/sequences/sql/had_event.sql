SELECT e.contact_key
FROM rows(:people: id bigint, since bigint) AS n
JOIN sequence_enrolments AS e ON e.id = n.id
JOIN contacts AS c ON c.id = e.contact_key
WHERE EXISTS (
  SELECT 1 FROM contact_events AS v
  WHERE v.tenant_id = c.tenant_id AND v.email = c.email AND v.name = :name AND v.received_at >= n.since
)
