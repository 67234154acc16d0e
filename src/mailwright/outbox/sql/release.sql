-- Gives back claimed messages that were not handed to a provider, as if they had not been claimed. A message that was
-- put in doubt in the meantime is no longer in doubt, because its worker knows that it was not sent.
UPDATE deliveries
SET status = CASE
      WHEN status IN ('PENDING', 'RETRY_SCHEDULED') THEN status
      WHEN attempts > 0 OR resends > 0 THEN 'RETRY_SCHEDULED'
      ELSE 'PENDING'
    END,
    -- A message in doubt may be due a day later. Because this one was not sent, restore its previous due time.
    next_attempt_at = CASE WHEN status = 'IN_DOUBT' THEN attempted_at ELSE next_attempt_at END,
    claimable_at = CASE WHEN status = 'IN_DOUBT' THEN attempted_at ELSE next_attempt_at END,
    error_code = CASE WHEN status = 'IN_DOUBT' THEN NULL ELSE error_code END,
    error_category = CASE WHEN status = 'IN_DOUBT' THEN NULL ELSE error_category END,
    error_reason = CASE WHEN status = 'IN_DOUBT' THEN NULL ELSE error_reason END,
    -- If a provider may have the message from before this claim, no other provider may get it.
    in_doubt_since = CASE WHEN status = 'IN_DOUBT' AND held.only_provider IS NULL THEN NULL ELSE in_doubt_since END,
    -- The provider of this attempt did not get the message, but the provider of an earlier attempt may have it.
    provider = CASE
      WHEN held.only_provider IS NOT NULL THEN held.only_provider
      WHEN resends = 0 AND (status = 'IN_DOUBT' OR (status = 'SENT_ATTEMPT' AND in_doubt_since IS NULL)) THEN NULL
      ELSE provider
    END,
    claims = CASE WHEN claims > 0 THEN claims - 1 ELSE 0 END, claim_token = NULL, locked_by = NULL, locked_at = NULL
FROM rows(:claims: message_key bigint, claim_token bigint, only_provider text) AS held
WHERE deliveries.message_key = held.message_key
  AND deliveries.claim_token = held.claim_token
  AND (deliveries.status = 'IN_DOUBT'
    OR (deliveries.locked_by IS NOT NULL AND deliveries.status IN ('PENDING', 'RETRY_SCHEDULED', 'SENT_ATTEMPT')))
