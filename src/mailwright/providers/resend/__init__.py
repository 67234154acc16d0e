"""Send through Resend."""
