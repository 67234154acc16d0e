INSERT INTO template_editors (tenant_id, template_id, locale, editor, login, seen_at)
VALUES (:tenant_id, :template_id, :locale, :editor, :login, :seen_at)
ON CONFLICT (tenant_id, template_id, locale, editor) DO UPDATE SET login = excluded.login, seen_at = excluded.seen_at
