-- Counts the messages that workers have claimed, because any of them may still be sent.
SELECT count(*) AS messages FROM deliveries WHERE locked_by IS NOT NULL
