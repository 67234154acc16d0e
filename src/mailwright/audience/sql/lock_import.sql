-- Two processes cannot store the same batch twice: the second one sees that the import has advanced.
SELECT records FROM imports WHERE id = :id AND finished_at IS NULL
for update
