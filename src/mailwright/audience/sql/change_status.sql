-- A bounce replaces an unsubscribe, and an unsubscribe replaces active, but not the other way round. If two facts have
-- the same weight, the later one wins, regardless of the order in which they arrive.
UPDATE contacts
SET status = f.status, status_updated_at = f.at, status_source = f.source, bounce_type = f.bounce_type,
    bounce_subtype = f.bounce_subtype
FROM rows(:facts: tenant_id bigint, email text, status text, weight int, at bigint, source text, bounce_type text,
  bounce_subtype text) AS f
WHERE contacts.tenant_id = f.tenant_id AND contacts.email = f.email
  AND (f.weight > CASE contacts.status WHEN 'bounced' THEN 2 WHEN 'unsubscribed' THEN 1 ELSE 0 END
    OR (f.status = contacts.status AND f.at >= COALESCE(contacts.status_updated_at, 0)))
