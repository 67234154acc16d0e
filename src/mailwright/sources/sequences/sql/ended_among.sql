SELECT e.id FROM rows(:enrolments: id bigint) AS n
JOIN sequence_enrolments AS e ON e.id = n.id WHERE e.ended_at IS NOT NULL
