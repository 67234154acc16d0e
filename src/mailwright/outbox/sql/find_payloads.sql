SELECT m.id AS message_key, m.payload FROM rows(:wanted: message_key bigint) AS w JOIN messages AS m ON m.id = w.message_key
