UPDATE contacts
SET legal_basis = NULL, legal_basis_source = NULL, legal_basis_by = NULL, legal_basis_at = NULL
FROM rows(:contacts: email text) AS p
-- One lookup per row: without statistics of a young table, the planner would compare all rows with all rows.
WHERE contacts.id = (SELECT k.id FROM contacts AS k WHERE k.tenant_id = :tenant_id AND k.email = p.email)
  AND contacts.legal_basis IS NOT NULL
RETURNING contacts.email
