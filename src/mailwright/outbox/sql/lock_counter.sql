SELECT used FROM counters WHERE name = :name
for update
