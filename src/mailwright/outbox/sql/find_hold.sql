SELECT value FROM installation WHERE name = 'sending_hold'
