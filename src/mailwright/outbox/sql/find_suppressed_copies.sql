-- Finds messages with a copy to an address that was suppressed after they were built.
SELECT DISTINCT c.message_key
FROM rows(:copies: message_key bigint, tenant_id bigint, email text, list_key text) AS c
JOIN suppressions AS s ON s.tenant_id = c.tenant_id AND s.email = c.email
WHERE s.list_key = '*' OR (c.list_key IS NOT NULL AND s.list_key IN ('general', c.list_key))
