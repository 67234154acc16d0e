-- Renames the provider of failed messages that a former server may have, so that a retry never hands them to the server
-- that has the provider's name from now on. The list of states is that of the index.
UPDATE deliveries
SET provider = :former
WHERE status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED') AND status = 'FAILED' AND provider = :provider
  AND (resends > 0 OR in_doubt_since IS NOT NULL)
