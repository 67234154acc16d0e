"""The path of one message: validate, compose, and turn the provider's response into an outcome."""
