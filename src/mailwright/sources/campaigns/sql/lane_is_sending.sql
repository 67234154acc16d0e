-- Return whether any message of a campaign still waits for its first attempt or is being sent. Messages that the
-- receiving server, a frequency cap or a snooze defers are not waited for.
SELECT
  EXISTS (SELECT 1 FROM deliveries
          WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED') AND lane = :lane
            AND (claimable_at <= :now OR (COALESCE(defer_reason, '') NOT IN ('', 'snoozed')
              AND defer_reason NOT LIKE 'frequency_cap:%'))) AS waiting,
  EXISTS (SELECT 1 FROM deliveries WHERE locked_by IS NOT NULL AND lane = :lane) AS sending
