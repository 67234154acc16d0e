DELETE FROM message_dead_letters WHERE message_key = :message_key
