-- A network that is known already is only seen again.
INSERT INTO known_networks (account, network, seen_at) VALUES (:account, :network, :now)
ON CONFLICT (account, network) DO UPDATE SET seen_at = excluded.seen_at
