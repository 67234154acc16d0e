-- Makes the messages due that a frequency cap defers, so that the gate decides about them again.
UPDATE deliveries
SET claimable_at = next_attempt_at, defer_reason = NULL
WHERE lane BETWEEN :first_lane AND :last_lane AND defer_reason LIKE 'frequency_cap:%'
  AND locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED')
