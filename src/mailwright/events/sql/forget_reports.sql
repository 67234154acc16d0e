-- What nobody will ask for again: not a soft bounce that still counts. A doubt is over long before its proof is old.
DELETE FROM reports
WHERE id IN (
  SELECT r.id FROM reports AS r
  WHERE r.received_at < :received_before
    AND (r.verdict <> 'soft_bounce' OR r.at < :counted_since)
  ORDER BY r.received_at
  LIMIT :most
)
