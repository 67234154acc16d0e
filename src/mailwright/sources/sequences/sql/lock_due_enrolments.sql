SELECT e.id, e.run, e.contact_key, e.node, e.entered_at, e.visit, e.waits_since, e.skips_email, e.received_steps,
  c.contact_id, c.email, c.name, c.locale, c.timezone, c.attributes,
  (SELECT v.properties FROM contact_events AS v WHERE v.id = e.event_key) AS event,
  (SELECT i.content FROM feed_items AS i WHERE i.id = e.item_key) AS item
FROM rows(:contacts: id bigint) AS p
-- The sums and COALESCE keep the planner from other indexes: without statistics of a young table, it would read everyone
-- in the sequence.
JOIN sequence_enrolments AS e ON e.contact_key = p.id AND e.sequence_key + 0 = :sequence_key
JOIN contacts AS c ON c.id = p.id
WHERE COALESCE(e.ended_at, 0) = 0 AND e.due_at + 0 <= :now
ORDER BY e.contact_key
for update
