SELECT e.id, e.run, e.contact_key, e.node, e.visit, e.waits_since, e.skips_email, e.received_steps,
  c.contact_id, c.email, c.name, c.locale, c.timezone, c.attributes,
  (SELECT v.properties FROM contact_events AS v WHERE v.id = e.event_key) AS event,
  (SELECT i.content FROM feed_items AS i WHERE i.id = e.item_key) AS item
FROM rows(:contacts: id bigint) AS p
JOIN sequence_enrolments AS e ON e.contact_key = p.id AND e.sequence_key = :sequence_key
JOIN contacts AS c ON c.id = p.id
WHERE e.ended_at IS NULL AND e.due_at IS NOT NULL AND e.due_at <= :now
ORDER BY e.contact_key
for update
