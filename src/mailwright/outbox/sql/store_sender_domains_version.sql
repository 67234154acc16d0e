-- Stores a new version of the sender domains, by which processes notice a change.
INSERT INTO installation (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
