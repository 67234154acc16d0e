-- A consent in the file does not replace a contact's own decision. A refusal in the file always does.
UPDATE contacts
SET consents_to_tracking = p.is_given <> 0, tracking_consent_wording = CASE WHEN p.is_given <> 0 THEN p.wording END,
    tracking_consent_source = CAST(:source AS text), tracking_consent_at = CAST(:now AS bigint)
FROM rows(:contacts: email text, wording text, is_given integer) AS p
-- One lookup per row: without statistics of a young table, the planner would compare all rows with all rows.
WHERE contacts.id = (SELECT k.id FROM contacts AS k WHERE k.tenant_id = :tenant_id AND k.email = p.email)
  AND (contacts.consents_to_tracking IS NULL OR (p.is_given = 0 AND contacts.consents_to_tracking))
RETURNING contacts.email
