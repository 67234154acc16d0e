-- Whether anything of a campaign waits or is under way, without counting it; each condition is word for word its index's.
SELECT
  EXISTS (SELECT 1 FROM deliveries
          WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED') AND lane = :lane) AS waiting,
  EXISTS (SELECT 1 FROM deliveries WHERE locked_by IS NOT NULL AND lane = :lane) AS sending
