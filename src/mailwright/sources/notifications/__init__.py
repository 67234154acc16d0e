"""Notifications: rows of a queue that another program writes become mails, and the queue is told what came of them."""
