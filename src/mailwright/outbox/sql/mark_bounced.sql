-- Records that messages bounced after a provider had accepted them. The first report counts. Rows are locked in the
-- order of their keys, so that two transactions cannot deadlock.
WITH found AS MATERIALIZED (
  SELECT d.message_key, b.at
  FROM rows(:bounces: message_key bigint, at bigint) AS b
  JOIN deliveries AS d ON d.message_key = b.message_key
  WHERE d.bounced_at IS NULL
  ORDER BY d.message_key
  for update
)
UPDATE deliveries
SET bounced_at = found.at
FROM found
WHERE deliveries.message_key = found.message_key
