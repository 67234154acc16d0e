-- How many mails to these domains are being sent right now, by any worker. Addresses are in normal form and domains
-- hold no character that LIKE would take for another.
SELECT w.domain, count(*) AS in_flight
FROM deliveries AS d
JOIN messages AS m ON m.id = d.message_key
JOIN rows(:domains: domain text) AS w ON m.to_email LIKE '%@' || w.domain
WHERE d.locked_by IS NOT NULL AND d.claimable_at > :now AND d.status = 'SENT_ATTEMPT'
GROUP BY w.domain
