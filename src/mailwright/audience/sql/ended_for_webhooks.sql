SELECT e.tenant_id, e.contact_key, e.run, e.node, e.end_reason, q.sequence_id, q.name
FROM rows(:ended: id bigint, reason text) AS n
JOIN sequence_enrolments AS e ON e.id = n.id
JOIN sequences AS q ON q.id = e.sequence_key
WHERE e.ended_at = :now AND e.end_reason <> 'entry' AND EXISTS (
  SELECT 1 FROM webhook_endpoints AS w
  WHERE w.tenant_id = e.tenant_id AND w.is_active AND w.paused_at IS NULL AND w.types LIKE :pattern
)
ORDER BY e.id
