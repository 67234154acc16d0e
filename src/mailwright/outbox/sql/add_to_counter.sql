UPDATE counters SET used = used + :count WHERE name = :name
