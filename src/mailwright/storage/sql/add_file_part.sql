INSERT INTO stored_files (name, position, content, stored_at)
SELECT p.name, p.position, p.content, p.stored_at
FROM rows(:parts: name text, position bigint, content bytea, stored_at bigint) AS p
