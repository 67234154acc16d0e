DELETE FROM stored_files WHERE name IN (SELECT f.name FROM rows(:names: name text) AS f)
