SELECT 1 AS found FROM events WHERE message_key = :message_key AND type = :type AND metadata = :metadata LIMIT 1
