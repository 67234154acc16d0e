-- Count the messages of several campaigns by bucket, as count_lane.sql does for one.
SELECT l.lane,
  (SELECT count(*) FROM deliveries
   WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED') AND lane = l.lane) AS waiting,
  (SELECT count(*) FROM deliveries WHERE locked_by IS NOT NULL AND lane = l.lane) AS sending,
  (SELECT count(*) FROM deliveries
   WHERE bounced_at IS NOT NULL AND lane = l.lane AND status = 'SENT')
    + (SELECT CAST(COALESCE(sum(deleted), 0) AS bigint) FROM retention_tombstones WHERE lane = l.lane AND bucket = 'bounced') AS bounced,
  (SELECT count(*) FROM deliveries
   WHERE status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED') AND lane = l.lane AND status = 'FAILED'
     AND COALESCE(error_code, '') NOT IN ('RECIPIENT_SUPPRESSED', 'RECIPIENT_NOT_FOUND', 'FREQUENCY_CAP', 'RECIPIENT_SNOOZED'))
    + (SELECT CAST(COALESCE(sum(deleted), 0) AS bigint) FROM retention_tombstones WHERE lane = l.lane AND bucket = 'failed') AS failed,
  (SELECT count(*) FROM deliveries
   WHERE status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED') AND lane = l.lane AND status = 'FAILED'
     AND error_code IN ('RECIPIENT_SUPPRESSED', 'RECIPIENT_NOT_FOUND', 'FREQUENCY_CAP', 'RECIPIENT_SNOOZED'))
    + (SELECT CAST(COALESCE(sum(deleted), 0) AS bigint) FROM retention_tombstones WHERE lane = l.lane AND bucket = 'suppressed') AS suppressed,
  (SELECT count(*) FROM deliveries
   WHERE status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED') AND lane = l.lane AND status = 'IN_DOUBT'
  ) AS in_doubt,
  (SELECT count(*) FROM deliveries
   WHERE status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED') AND lane = l.lane AND status = 'CLOSED_UNKNOWN'
  )
    + (SELECT CAST(COALESCE(sum(deleted), 0) AS bigint) FROM retention_tombstones WHERE lane = l.lane AND bucket = 'closed_unknown') AS closed_unknown,
  (SELECT count(*) FROM deliveries
   WHERE status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED') AND lane = l.lane AND status = 'CANCELLED'
  )
    + (SELECT CAST(COALESCE(sum(deleted), 0) AS bigint) FROM retention_tombstones WHERE lane = l.lane AND bucket = 'cancelled') AS cancelled
FROM rows(:lanes: lane bigint) AS l
