INSERT INTO stored_settings (name, value, updated_at, updated_by)
VALUES (:name, :value, :now, :actor)
ON CONFLICT (name) DO UPDATE
SET value = excluded.value, updated_at = excluded.updated_at, updated_by = excluded.updated_by
