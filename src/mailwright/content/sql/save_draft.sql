-- Nothing is changed if another browser saved since this one read the draft.
UPDATE template_drafts
SET revision = revision + 1, base_version = :base_version, subject = :subject, document = :document,
    saved_by = :saved_by, saved_at = :saved_at
WHERE tenant_id = :tenant_id AND template_id = :template_id AND locale = :locale AND revision = :revision
RETURNING revision
