"""Templates, HTML, plain text, MIME and DKIM signatures of emails."""
