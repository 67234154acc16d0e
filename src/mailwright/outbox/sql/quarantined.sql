-- Counts the messages that may have been sent after the backup: those that were due when the hold began, and those that
-- were put in doubt since then. Also counts how many of them a provider has reported, so that they were sent.
SELECT t.name AS tenant, m.source, c.campaign_id, c.name AS campaign_name, count(*) AS messages,
  sum(CASE WHEN EXISTS (SELECT 1 FROM reports AS r WHERE r.message_key = d.message_key AND r.is_proof) THEN 1 ELSE 0 END)
    AS reported
FROM deliveries AS d
JOIN messages AS m ON m.id = d.message_key
JOIN tenants AS t ON t.id = d.tenant_id
LEFT JOIN campaigns AS c ON c.id = m.campaign_key
WHERE d.status = 'IN_DOUBT' AND d.error_code IN ('DATABASE_RESTORED', 'COMMITS_LOST')
  OR m.created_at <= :since AND (
    d.status IN ('PENDING', 'RETRY_SCHEDULED') AND d.next_attempt_at <= :since
    OR d.status IN ('SENT_ATTEMPT', 'IN_DOUBT') AND :since > 0
  )
GROUP BY t.name, m.source, c.campaign_id, c.name
ORDER BY t.name, m.source, c.campaign_id
