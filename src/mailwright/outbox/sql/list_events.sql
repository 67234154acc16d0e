-- Lists events by time. Events of the same millisecond are in the order in which they were written.
SELECT type, created_at, metadata FROM events WHERE message_key = :message_key ORDER BY created_at, id
