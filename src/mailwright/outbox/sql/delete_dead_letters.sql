DELETE FROM message_dead_letters
WHERE message_key IN (SELECT p.message_key FROM rows(:proven: message_key bigint) AS p)
