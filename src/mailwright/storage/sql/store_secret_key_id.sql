-- Stores the fingerprint of the secret key; after a key rotation, it replaces the old fingerprint.
INSERT INTO installation (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
