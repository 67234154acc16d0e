-- Counts the unfinished messages that the server of a provider may already have: attempts in progress, messages in doubt,
-- and messages that only this provider may get again.
SELECT
  (
    SELECT count(*) FROM deliveries
    WHERE locked_by IS NOT NULL AND provider = :provider
      AND (status = 'SENT_ATTEMPT'
        OR (status IN ('PENDING', 'RETRY_SCHEDULED') AND (resends > 0 OR in_doubt_since IS NOT NULL)))
  ) AS sending,
  (SELECT count(*) FROM deliveries WHERE status = 'IN_DOUBT' AND provider = :provider) AS in_doubt,
  (
    SELECT count(*) FROM deliveries
    WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED') AND provider = :provider
      AND (resends > 0 OR in_doubt_since IS NOT NULL)
  ) AS waiting
