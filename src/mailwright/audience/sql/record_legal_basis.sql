-- A basis that is already recorded keeps its first record.
UPDATE contacts
SET legal_basis = CAST(:basis AS text), legal_basis_source = CAST(:source AS text), legal_basis_by = CAST(:by AS text),
    legal_basis_at = CAST(:now AS bigint)
FROM rows(:contacts: email text) AS p
-- One lookup per row: without statistics of a young table, the planner would compare all rows with all rows.
WHERE contacts.id = (SELECT k.id FROM contacts AS k WHERE k.tenant_id = :tenant_id AND k.email = p.email)
  AND COALESCE(contacts.legal_basis, '') <> CAST(:basis AS text)
