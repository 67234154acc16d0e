"""Send through Mailgun."""
