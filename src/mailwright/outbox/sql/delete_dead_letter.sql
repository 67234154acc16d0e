DELETE FROM dead_letters WHERE message_key = :message_key
