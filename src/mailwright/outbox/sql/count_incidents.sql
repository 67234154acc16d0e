-- Counts the messages of a campaign with each kind of incident, whose attempt began after a time.
SELECT kind, count(*) AS messages FROM campaign_incidents
WHERE campaign_key = :campaign_key AND attempted_at > :since
GROUP BY kind
