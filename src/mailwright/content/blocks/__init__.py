"""Block documents: emails as JSON that people edit without HTML, and that compile to MJML and HTML."""
