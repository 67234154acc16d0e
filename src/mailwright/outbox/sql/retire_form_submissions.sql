DELETE FROM form_submissions WHERE id IN (SELECT k.id FROM rows(:keys: id bigint) AS k) RETURNING *
