SELECT id FROM sequence_enrolments WHERE contact_key = :contact_key AND ended_at IS NULL ORDER BY id for update
