UPDATE messages SET scheduled_at = :due_at
WHERE id IN (SELECT message_key FROM rows(:waiting: message_key bigint) AS n)
