SELECT e.id, e.contact_key, e.node, e.visit, e.waits_since, e.skips_email,
  c.contact_id, c.email, c.name, c.locale, c.timezone, c.attributes
FROM rows(:contacts: id bigint) AS p
JOIN sequence_enrolments AS e ON e.contact_key = p.id AND e.sequence_key = :sequence_key
JOIN contacts AS c ON c.id = p.id
WHERE e.ended_at IS NULL AND e.due_at IS NOT NULL AND e.due_at <= :now
ORDER BY e.contact_key
for update
