"""SMTP submission: applications hand over email as they do to any mail server, with an API key as the password."""
