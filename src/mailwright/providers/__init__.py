"""Who carries the mail. A message in, a `SendResult` out, never an exception; nothing here knows the database."""
