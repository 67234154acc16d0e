-- Finds messages whose body or events can be deleted, or that can be deleted completely: finished before a time, of no
-- running campaign, and with all their events counted in the tallies.
SELECT m.id AS message_key, d.lane, d.resends, m.content_digest,
  CASE WHEN m.campaign_key IS NULL THEN 0 ELSE 1 END AS is_of_campaign,
  CASE
    WHEN d.status = 'SENT' AND d.bounced_at IS NOT NULL THEN 'bounced'
    WHEN d.status = 'FAILED' AND d.error_code IN ('RECIPIENT_SUPPRESSED', 'RECIPIENT_NOT_FOUND', 'FREQUENCY_CAP', 'RECIPIENT_SNOOZED') THEN 'suppressed'
    ELSE lower(d.status)
  END AS bucket,
  CASE CAST(:kind AS text)
    WHEN 'events' THEN (
      SELECT count(*) FROM events AS e
      WHERE e.message_key = m.id AND (m.campaign_key IS NULL OR e.type NOT IN ('open', 'click'))
    )
    ELSE 1
  END AS affected,
  CASE CAST(:kind AS text)
    WHEN 'bodies' THEN length(m.payload)
    WHEN 'events' THEN (
      SELECT COALESCE(sum(length(e.metadata) + 40), 0) FROM events AS e
      WHERE e.message_key = m.id AND (m.campaign_key IS NULL OR e.type NOT IN ('open', 'click'))
    )
    ELSE length(m.payload) + length(m.subject) + 400
      + (SELECT COALESCE(sum(length(e.metadata) + 40), 0) FROM events AS e WHERE e.message_key = m.id)
  END AS bytes
FROM messages AS m
JOIN deliveries AS d ON d.message_key = m.id
WHERE m.tenant_id = :tenant_id AND m.id > :after AND m.id <= :up_to AND m.created_at < CAST(:before AS bigint)
  AND d.status IN ('SENT', 'FAILED', 'CLOSED_UNKNOWN', 'CANCELLED') AND d.locked_by IS NULL
  AND COALESCE(d.attempted_at, 0) < CAST(:before AS bigint) AND COALESCE(d.failed_at, 0) < CAST(:before AS bigint)
  AND (
    m.campaign_key IS NULL
    OR EXISTS (SELECT 1 FROM queue_entries AS q WHERE q.campaign_key = m.campaign_key AND q.completed_at IS NOT NULL)
  )
  AND (
    m.source <> 'mailout'
    OR NOT EXISTS (
      SELECT 1 FROM mailouts AS o
      WHERE o.campaign_key = m.campaign_key AND (o.finished_at IS NULL OR o.due_at IS NOT NULL)
    )
  )
  AND (CAST(:kind AS text) <> 'bodies' OR m.payload <> '{}')
  AND (
    CAST(:kind AS text) = 'bodies'
    OR NOT EXISTS (
      SELECT 1 FROM events AS e
      WHERE e.message_key = m.id AND (e.id > CAST(:counted AS bigint) OR e.created_at >= CAST(:before AS bigint))
    )
  )
  AND (
    CAST(:kind AS text) <> 'events'
    OR EXISTS (
      SELECT 1 FROM events AS e
      WHERE e.message_key = m.id AND (m.campaign_key IS NULL OR e.type NOT IN ('open', 'click'))
    )
  )
  AND (CAST(:kind AS text) <> 'messages' OR m.source NOT IN ('article', 'notification'))
ORDER BY m.id
skip locked
