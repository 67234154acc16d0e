-- After a rotation of the key, its new fingerprint replaces the old one.
INSERT INTO installation (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
