-- Keeps the server and account of a provider from being changed until the attempts of this transaction are committed.
-- Returns nothing if they have changed since the worker was started, so that no attempt begins with the old ones.
SELECT id FROM provider_configurations WHERE name = :name AND account = :account
for share
