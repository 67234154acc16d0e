-- Lists events in the order of their times; events of the same millisecond in the order in which they were written.
SELECT type, created_at, metadata FROM events WHERE message_key = :message_key ORDER BY created_at, id
