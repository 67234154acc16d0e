UPDATE imports
SET records = :records, read_bytes = :read_bytes, report_bytes = :report_bytes, added = :added, changed = :changed,
    unchanged = :unchanged, refused = :refused, updated_at = :now
WHERE id = :id
