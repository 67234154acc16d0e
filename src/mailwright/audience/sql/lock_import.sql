-- Two that work on the same import do not store the same portion twice: who comes second sees that it has moved.
SELECT records FROM imports WHERE id = :id AND finished_at IS NULL
for update
