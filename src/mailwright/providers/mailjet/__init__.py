"""Send through Mailjet."""
