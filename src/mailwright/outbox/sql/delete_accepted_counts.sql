DELETE FROM accepted_counts
WHERE id IN (SELECT id FROM accepted_counts ORDER BY id LIMIT :most skip locked)
RETURNING tenant_id, source, accepted
