-- Return whether any message of a campaign is waiting or being sent, without counting. Each condition must match its
-- partial index.
SELECT
  EXISTS (SELECT 1 FROM deliveries
          WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED') AND lane = :lane) AS waiting,
  EXISTS (SELECT 1 FROM deliveries WHERE locked_by IS NOT NULL AND lane = :lane) AS sending
