-- Count the messages of a campaign by bucket, from partial indexes of messages that are unfinished or went wrong; each
-- condition must match its index. All other messages were sent. Suppressed and deleted recipients are not failures.
-- Messages that retention deleted are added.
SELECT waiting.waiting, sending.sending, bounced.bounced + gone.bounced AS bounced, rare.failed + gone.failed AS failed,
  rare.suppressed + gone.suppressed AS suppressed, rare.in_doubt, rare.closed_unknown + gone.closed_unknown AS closed_unknown,
  rare.cancelled + gone.cancelled AS cancelled
FROM
  (SELECT count(*) AS waiting FROM deliveries
   WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED') AND lane = :lane) AS waiting,
  (SELECT count(*) AS sending FROM deliveries WHERE locked_by IS NOT NULL AND lane = :lane) AS sending,
  (SELECT count(*) AS bounced FROM deliveries
   WHERE bounced_at IS NOT NULL AND lane = :lane AND status = 'SENT') AS bounced,
  (SELECT
     count(CASE WHEN status = 'FAILED' AND COALESCE(error_code, '') NOT IN ('RECIPIENT_SUPPRESSED', 'RECIPIENT_NOT_FOUND', 'FREQUENCY_CAP', 'RECIPIENT_SNOOZED')
           THEN 1 END) AS failed,
     count(CASE WHEN status = 'FAILED' AND error_code IN ('RECIPIENT_SUPPRESSED', 'RECIPIENT_NOT_FOUND', 'FREQUENCY_CAP', 'RECIPIENT_SNOOZED')
           THEN 1 END) AS suppressed,
     count(CASE WHEN status = 'IN_DOUBT' THEN 1 END) AS in_doubt,
     count(CASE WHEN status = 'CLOSED_UNKNOWN' THEN 1 END) AS closed_unknown,
     count(CASE WHEN status = 'CANCELLED' THEN 1 END) AS cancelled
   FROM deliveries
   WHERE status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED') AND lane = :lane) AS rare,
  (SELECT
     CAST(COALESCE(sum(CASE WHEN bucket = 'bounced' THEN deleted END), 0) AS bigint) AS bounced,
     CAST(COALESCE(sum(CASE WHEN bucket = 'failed' THEN deleted END), 0) AS bigint) AS failed,
     CAST(COALESCE(sum(CASE WHEN bucket = 'suppressed' THEN deleted END), 0) AS bigint) AS suppressed,
     CAST(COALESCE(sum(CASE WHEN bucket = 'closed_unknown' THEN deleted END), 0) AS bigint) AS closed_unknown,
     CAST(COALESCE(sum(CASE WHEN bucket = 'cancelled' THEN deleted END), 0) AS bigint) AS cancelled
   FROM retention_tombstones WHERE lane = :lane) AS gone
