"""Sample data for `make demo`: a small shop and a bakery with messages in every state."""
