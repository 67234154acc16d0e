SELECT name, used FROM counters WHERE name IN (SELECT w.name FROM rows(:wanted: name text) AS w)
