"""Send the notifications that another program queues in its own tables, and record the results there."""
