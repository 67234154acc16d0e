-- Serializes workers that begin bulk messages to the same recipients, so that two of them do not use the same free
-- place. The caller passes the numbers in order, which prevents deadlocks.
SELECT transaction_lock(r.number) AS locked FROM rows(:recipients: number bigint) AS r
