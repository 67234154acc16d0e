-- The runs of these contacts through a sequence, the latest last.
SELECT e.id, e.contact_key, e.entered_at, e.events_after, e.ended_at, e.end_reason
FROM rows(:contacts: id bigint) AS p
-- The sum keeps the planner from other indexes: without statistics of a young table, it would read everyone in the
-- sequence.
JOIN sequence_enrolments AS e ON e.contact_key = p.id AND e.sequence_key + 0 = :sequence_key
ORDER BY e.id
