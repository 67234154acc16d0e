-- Serializes transactions that record opens and clicks of the same messages, so that each of them sees those of the
-- others. The caller passes the keys in order, which prevents deadlocks.
SELECT transaction_lock(-r.message_key) AS locked FROM rows(:responses: message_key bigint) AS r
