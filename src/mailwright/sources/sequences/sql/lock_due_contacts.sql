-- Locks the contacts first and in the order of all other code, so that an unsubscribe happens before or after the steps.
-- The order by time alone is that of the index: with another column, each batch would sort everyone who is due.
SELECT c.id FROM contacts AS c
WHERE c.id IN (
  SELECT e.contact_key FROM sequence_enrolments AS e
  WHERE e.sequence_key = :sequence_key AND e.ended_at IS NULL AND e.due_at IS NOT NULL AND e.due_at <= :now
    AND (CAST(:only AS bigint) = 0 OR e.id = :only)
  ORDER BY e.due_at LIMIT :limit
)
ORDER BY c.tenant_id, c.email
for update
