UPDATE contacts SET name = p.name, locale = p.locale, timezone = p.timezone, attributes = p.attributes
FROM rows(:contacts: id bigint, name text, locale text, timezone text, attributes text) AS p
WHERE contacts.id = p.id
