-- Only what waits, is being sent or is in doubt is counted, each from an index that holds nothing else.
SELECT 'due' AS name, count(*) AS messages, min(claimable_at) AS oldest
FROM deliveries WHERE status IN ('PENDING', 'RETRY_SCHEDULED') AND claimable_at <= :now
UNION ALL
SELECT 'later', count(*), NULL FROM deliveries WHERE status IN ('PENDING', 'RETRY_SCHEDULED') AND claimable_at > :now
UNION ALL
SELECT 'sending', count(*), NULL FROM deliveries WHERE status = 'SENT_ATTEMPT'
UNION ALL
SELECT 'in_doubt', count(*), NULL FROM deliveries WHERE status = 'IN_DOUBT'
UNION ALL
SELECT 'dead_letters', count(*), NULL FROM dead_letters
