-- Lets messages that a worker is sending expire, so that they are not sent again if the provider did not take them.
UPDATE messages SET expires_at = :now
WHERE id IN (SELECT message_key FROM rows(:sending: message_key bigint) AS n) AND (expires_at IS NULL OR expires_at > :now)
