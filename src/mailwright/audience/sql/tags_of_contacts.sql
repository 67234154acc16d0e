SELECT t.contact_key, t.tag FROM rows(:contacts: id bigint) AS p CROSS JOIN contact_tags AS t WHERE t.contact_key = p.id
