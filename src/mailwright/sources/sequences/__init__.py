"""Sequences: a series of emails for each person, such as a welcome series."""
