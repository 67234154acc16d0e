-- If the network is already known, only update the time of the last sign-in from it.
INSERT INTO known_networks (account, network, seen_at) VALUES (:account, :network, :now)
ON CONFLICT (account, network) DO UPDATE SET seen_at = excluded.seen_at
