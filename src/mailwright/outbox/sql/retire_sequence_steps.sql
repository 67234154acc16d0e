DELETE FROM sequence_steps WHERE enrolment_key IN (SELECT k.id FROM rows(:keys: id bigint) AS k) RETURNING *
