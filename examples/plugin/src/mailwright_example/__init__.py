"""An example of a Mailwright plugin."""
