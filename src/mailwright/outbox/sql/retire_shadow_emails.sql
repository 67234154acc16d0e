DELETE FROM shadow_emails WHERE id IN (SELECT k.id FROM rows(:keys: id bigint) AS k) RETURNING *
