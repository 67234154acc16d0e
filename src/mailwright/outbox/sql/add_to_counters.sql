UPDATE counters SET used = used + a.count FROM rows(:added: name text, count bigint) AS a WHERE counters.name = a.name
