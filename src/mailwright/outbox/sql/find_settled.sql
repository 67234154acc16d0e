-- Finds the messages that this settlement changed. Needed only if it did not change all of them.
SELECT deliveries.message_key
FROM rows(:claims: message_key bigint, claim_token bigint) AS held
JOIN deliveries ON deliveries.message_key = held.message_key
WHERE deliveries.settlement = :settlement
