-- Finds messages by the provider's ID. One request may have sent several messages, which then have the same ID. CROSS
-- JOIN makes the planner start with the few given rows.
SELECT d.provider, d.provider_message_id, d.message_key, d.tenant_id, m.to_email,
  COALESCE(d.sent_at, d.attempted_at) AS sent_at
FROM rows(:wanted: provider text, provider_message_id text) AS w
CROSS JOIN deliveries AS d
JOIN messages AS m ON m.id = d.message_key
WHERE d.provider_message_id = w.provider_message_id AND d.provider = w.provider
  AND d.provider NOT IN ('mailbox', 'smtp', 'smtpbz')
