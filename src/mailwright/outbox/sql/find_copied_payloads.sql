-- Finds the bodies that may have recipients in Cc or Bcc, without reading the others.
SELECT m.id AS message_key, m.payload
FROM rows(:wanted: message_key bigint) AS w
JOIN messages AS m ON m.id = w.message_key
WHERE m.payload LIKE '%cc"%'
