-- A hold, or the history of the server that was compared last, if the server has another one now. See failover.py.
SELECT value FROM installation
WHERE name = 'sending_hold' OR name = 'server_history' AND value <> server_history()
