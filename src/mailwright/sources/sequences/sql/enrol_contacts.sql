-- Enrols contacts unless they are in the sequence or its re-entry rule leaves them out. An enrolment that ended because
-- of the entry filter does not count for the rule, nor does one that ended before its first email because the person
-- may not receive emails. Retention deletes steps but keeps `visit`, so such a run counts. Half a day of tolerance,
-- because workers start people late by seconds, and a week with a change of the clocks is an hour shorter.
INSERT INTO sequence_enrolments (
  tenant_id, sequence_key, contact_key, run, entered_at, entered_because, due_at, event_key, item_key, events_after)
SELECT q.tenant_id, q.id, n.contact_key,
  1 + (SELECT COUNT(*) FROM sequence_enrolments AS b WHERE b.contact_key = n.contact_key AND b.sequence_key = q.id),
  CAST(:now AS bigint), CAST(:because AS text), CAST(:now AS bigint), n.event_key, n.item_key,
  COALESCE(n.event_key, (SELECT MAX(v.id) FROM contact_events AS v), 0)
FROM rows(:contacts: contact_key bigint, event_key bigint, item_key bigint) AS n
CROSS JOIN sequences AS q
WHERE q.id = :sequence_key
  AND NOT EXISTS (
    SELECT 1 FROM sequence_enrolments AS e
    WHERE e.contact_key = n.contact_key AND e.sequence_key = q.id AND (
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
ORDER BY n.contact_key
ON CONFLICT (sequence_key, contact_key) WHERE ended_at IS NULL DO NOTHING
