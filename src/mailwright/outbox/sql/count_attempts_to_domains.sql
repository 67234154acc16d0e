-- Counts the messages to these domains that any worker is sending now. Addresses are normalized, and domains contain no
-- LIKE wildcards.
SELECT w.domain, count(*) AS in_flight
FROM deliveries AS d
JOIN messages AS m ON m.id = d.message_key
JOIN rows(:domains: domain text) AS w ON m.to_email LIKE '%@' || w.domain
WHERE d.locked_by IS NOT NULL AND d.claimable_at > :now AND d.status = 'SENT_ATTEMPT'
GROUP BY w.domain
