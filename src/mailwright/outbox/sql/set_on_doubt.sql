UPDATE messages SET on_doubt = g.on_doubt
FROM rows(:decisions: message_key bigint, on_doubt text) AS g
WHERE messages.id = g.message_key AND messages.on_doubt <> g.on_doubt
RETURNING messages.id
