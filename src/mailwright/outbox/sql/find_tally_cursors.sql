SELECT name, CAST(value AS bigint) AS position FROM installation
WHERE name IN ('tallied_up_to', 'campaigns_tallied_up_to', 'links_tallied_up_to')
