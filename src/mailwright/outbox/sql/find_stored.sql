-- Finds the messages that exist among these IDs.
SELECT m.outbox_id FROM rows(:wanted: outbox_id text) AS w JOIN messages AS m ON m.outbox_id = w.outbox_id
