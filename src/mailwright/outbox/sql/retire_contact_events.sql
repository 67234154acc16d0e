DELETE FROM contact_events WHERE id IN (SELECT k.id FROM rows(:keys: id bigint) AS k) RETURNING *
