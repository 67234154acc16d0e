"""Functions that the kinds of providers share to verify and parse their events."""
