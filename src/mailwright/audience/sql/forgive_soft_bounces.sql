-- They stay on the timelines of their mails, and are not counted any more.
UPDATE reports SET verdict = 'nothing'
WHERE tenant_id = :tenant_id AND email = :email AND verdict = 'soft_bounce'
