"""Send through Postmark."""
