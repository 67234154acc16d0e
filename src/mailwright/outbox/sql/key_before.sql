-- Finds approximately the last key before a time. Keys and times grow together, so a binary search of the primary key
-- takes about twenty steps for a million rows.
WITH RECURSIVE search(low, high) AS (
  SELECT CAST(0 AS bigint), CAST((SELECT COALESCE(max(id), 0) + 1 FROM messages) AS bigint)
  UNION ALL
  SELECT
    CASE WHEN (SELECT m.created_at FROM messages AS m WHERE m.id >= (s.low + s.high) / 2 ORDER BY m.id LIMIT 1)
      < CAST(:time AS bigint) THEN (s.low + s.high) / 2 ELSE s.low END,
    CASE WHEN (SELECT m.created_at FROM messages AS m WHERE m.id >= (s.low + s.high) / 2 ORDER BY m.id LIMIT 1)
      < CAST(:time AS bigint) THEN s.high ELSE (s.low + s.high) / 2 END
  FROM search AS s
  WHERE s.high - s.low > 1
)
SELECT low FROM search ORDER BY high - low LIMIT 1
