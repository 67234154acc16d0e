-- What nobody will ask for again: not a soft bounce that still counts, and not the proof of a mail.
DELETE FROM reports
WHERE id IN (
  SELECT r.id FROM reports AS r
  WHERE r.received_at < :received_before AND NOT r.is_proof
    AND (r.verdict <> 'soft_bounce' OR r.at < :counted_since)
  ORDER BY r.id
  LIMIT :most
)
