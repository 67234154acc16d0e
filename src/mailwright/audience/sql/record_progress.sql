UPDATE imports
SET records = :records, read_bytes = :read_bytes, report_bytes = :report_bytes, added = :added, changed = :changed,
    unchanged = :unchanged, refused = :refused, subscribed = :subscribed, asked = :asked, said_no = :said_no,
    unanswered = :unanswered, unreadable = :unreadable, updated_at = :now
WHERE id = :id
