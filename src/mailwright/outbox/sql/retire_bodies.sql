UPDATE messages SET payload = '{}', content_digest = NULL
WHERE id IN (SELECT k.id FROM rows(:keys: id bigint) AS k)
