-- Locks the enrolments of these contacts who wait at a step.
SELECT e.id
FROM rows(:contacts: id bigint) AS p
-- The sums and COALESCE keep the planner from other indexes: without statistics of a young table, it would read everyone
-- in the sequence.
JOIN sequence_enrolments AS e ON e.contact_key = p.id AND e.sequence_key + 0 = :sequence_key
WHERE COALESCE(e.ended_at, 0) = 0 AND e.node = :node AND e.due_at + 0 > :now
ORDER BY e.contact_key
for update
