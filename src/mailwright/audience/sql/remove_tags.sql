DELETE FROM contact_tags
WHERE (contact_key, tag) IN (SELECT n.contact_key, n.tag FROM rows(:tags: contact_key bigint, tag text) AS n)
