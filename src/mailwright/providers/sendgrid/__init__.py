"""Send through SendGrid's v3 API: convert our MIME to SendGrid's JSON, and send one request per message."""
