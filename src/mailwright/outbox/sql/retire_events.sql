-- Deletes the events of messages. Messages of campaigns keep their opens and clicks.
WITH k AS MATERIALIZED (
  SELECT r.message_key, r.is_of_campaign FROM rows(:keys: message_key bigint, is_of_campaign bigint) AS r
)
DELETE FROM events
WHERE message_key IN (SELECT k.message_key FROM k)
  AND (type NOT IN ('open', 'click') OR message_key IN (SELECT k.message_key FROM k WHERE k.is_of_campaign = 0))
RETURNING *
