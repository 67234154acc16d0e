-- Makes the messages due that wait for a provider, because another provider may send them now.
UPDATE deliveries
SET claimable_at = :now, next_attempt_at = :now, defer_reason = NULL
WHERE tenant_id = :tenant_id
  AND defer_reason IN ('provider_unavailable', 'provider_throttled', 'provider_missing')
  AND locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED')
