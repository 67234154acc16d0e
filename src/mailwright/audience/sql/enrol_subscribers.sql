-- Enrols new subscribers of a list into the sequences that it starts, also paused ones. The re-entry rule is that of
-- `enrol_contacts`.
INSERT INTO sequence_enrolments (
  tenant_id, sequence_key, contact_key, run, entered_at, entered_because, due_at, events_after)
SELECT c.tenant_id, q.id, c.id,
  1 + (SELECT COUNT(*) FROM sequence_enrolments AS b WHERE b.contact_key = c.id AND b.sequence_key = q.id),
  CAST(:now AS bigint), CAST(:because AS text), CAST(:now AS bigint),
  COALESCE((SELECT MAX(v.id) FROM contact_events AS v), 0)
FROM rows(:contacts: email text) AS p
CROSS JOIN contacts AS c
CROSS JOIN sequences AS q
-- One lookup per row: without statistics of a young table, the planner would compare all rows with all rows.
WHERE c.id = (SELECT k.id FROM contacts AS k WHERE k.tenant_id = :tenant_id AND k.email = p.email)
  AND q.tenant_id = :tenant_id AND q.trigger_kind = 'joinsList' AND q.trigger_value = :list_key
  AND q.status IN ('running', 'paused')
  AND EXISTS (
    SELECT 1 FROM subscriptions AS s
    WHERE s.contact_key = c.id AND s.list_key = :list_key AND s.unsubscribed_at IS NULL AND NOT s.is_pending
      AND s.subscribed_at >= :since
  )
  AND NOT EXISTS (
    SELECT 1 FROM sequence_enrolments AS e
    WHERE e.contact_key = c.id AND e.sequence_key = q.id AND (
      e.ended_at IS NULL OR (
        e.end_reason <> 'entry'
        AND NOT (
          e.end_reason IN ('not_eligible', 'unsubscribed', 'bounced', 'complaint', 'suppressed')
          AND e.visit = (SELECT COUNT(*) FROM sequence_steps AS s WHERE s.enrolment_key = e.id AND s.outcome <> 'sent')
        )
        AND (q.reentry_days IS NULL OR e.entered_at > :now - q.reentry_days * 86400000 + 43200000)
      )
    )
  )
ORDER BY c.id, q.id
ON CONFLICT (sequence_key, contact_key) WHERE ended_at IS NULL DO NOTHING
