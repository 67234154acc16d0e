-- Finds, for each tenant, the latest message to this address that this provider accepted before the report.
SELECT l.provider, l.email, l.at, m.id AS message_key, m.tenant_id, m.to_email,
  COALESCE(d.sent_at, d.attempted_at) AS sent_at
FROM (
  SELECT w.provider, w.email, w.at, (
      SELECT m.id
      FROM messages AS m
      JOIN deliveries AS d ON d.message_key = m.id
      WHERE m.tenant_id = t.id AND m.to_email = w.email AND m.created_at <= w.at
        AND d.provider = w.provider AND d.status IN ('SENT', 'IN_DOUBT')
      ORDER BY m.id DESC
      LIMIT 1
    ) AS latest
  FROM rows(:wanted: provider text, email text, at bigint) AS w
  CROSS JOIN tenants AS t
) AS l
JOIN messages AS m ON m.id = l.latest
JOIN deliveries AS d ON d.message_key = m.id
ORDER BY m.id
