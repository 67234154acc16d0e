-- Finds opens and clicks that another source reported about the same message at about the same time. Also finds opens,
-- clicks and deliveries that are so close to a stored click that a machine may have made both (a delivery: to the click
-- of a scanner before it). An unsubscribe may be a click on the unsubscribe link.
SELECT p.key, CASE WHEN p.type <> 'delivered' AND EXISTS (
    SELECT 1 FROM reports AS r
    WHERE r.message_key = p.message_key AND r.type = p.type AND r.key NOT LIKE p.source || ':%'
      AND r.at BETWEEN p.at - :window AND p.at + :window
  ) THEN 1 ELSE 0 END AS is_known, CASE WHEN EXISTS (
    SELECT 1 FROM reports AS r
    WHERE r.message_key = p.message_key AND r.key <> p.key
      AND (
        (r.type = 'click' OR p.type = 'delivered' AND r.type = 'open') AND r.at BETWEEN p.at - p.reach AND p.at + p.reach
        OR p.type <> 'delivered' AND r.type = 'delivered' AND r.at BETWEEN p.at - :scan AND p.at + :scan
      )
  ) OR EXISTS (
    SELECT 1 FROM events AS e
    WHERE e.message_key = p.message_key AND e.type = 'unsubscribe'
      AND e.created_at BETWEEN p.at - p.reach AND p.at + p.reach
  ) THEN 1 ELSE 0 END AS is_suspect
FROM rows(:reports: key text, message_key bigint, type text, at bigint, source text, reach bigint) AS p
