DELETE FROM message_dead_letters WHERE message_key IN (SELECT k.message_key FROM rows(:keys: message_key bigint) AS k) RETURNING *
