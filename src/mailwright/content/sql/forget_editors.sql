DELETE FROM template_editors WHERE seen_at < :before
