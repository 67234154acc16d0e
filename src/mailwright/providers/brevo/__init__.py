"""Send through Brevo."""
