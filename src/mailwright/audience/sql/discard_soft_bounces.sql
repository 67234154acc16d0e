-- Soft bounces before an activation stay on the timelines of their messages, but no longer count.
UPDATE reports SET verdict = 'nothing'
WHERE tenant_id = :tenant_id AND email = :email AND verdict = 'soft_bounce'
