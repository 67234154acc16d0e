UPDATE contacts SET attributes = n.attributes
FROM rows(:contacts: contact_key bigint, attributes text) AS n
WHERE contacts.id = n.contact_key
