"""Send through Amazon SES, with one signed request per message, which is never repeated."""
