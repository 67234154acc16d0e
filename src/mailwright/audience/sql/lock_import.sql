-- Locks the import, so that two processes cannot store the same batch: the second one sees that it has advanced.
SELECT records FROM imports WHERE id = :id AND finished_at IS NULL
for update
