-- Nothing is inserted if another browser began the draft first.
INSERT INTO template_drafts
  (tenant_id, template_id, locale, revision, base_version, subject, document, saved_by, saved_at)
VALUES (:tenant_id, :template_id, :locale, 1, :base_version, :subject, :document, :saved_by, :saved_at)
ON CONFLICT (tenant_id, template_id, locale) DO NOTHING
RETURNING revision
