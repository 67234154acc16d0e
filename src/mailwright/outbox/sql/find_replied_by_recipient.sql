-- Finds the latest messages to an address, of all tenants, whose payload has the Message-ID of their email. CROSS JOIN
-- makes SQLite search the index of recipients, which begins with the tenant.
SELECT latest.id, latest.outbox_id, latest.tenant_id, latest.to_email, latest.is_bulk, latest.payload,
  latest.reply_forward_to
FROM (
  SELECT m.id, m.outbox_id, m.tenant_id, m.to_email, m.is_bulk, m.payload, t.reply_forward_to
  FROM tenants AS t
  CROSS JOIN messages AS m
  WHERE m.tenant_id = t.id AND m.to_email = :to_email
  ORDER BY m.id DESC
  LIMIT :limit
) AS latest
WHERE latest.payload LIKE '%"messageId":"<%'
