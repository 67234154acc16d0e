"""Send over SMTP with pooled, pipelined connections. Every result shows whether the server may have the message."""
