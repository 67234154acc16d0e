"""Sentences for people: explanations, times, filters and sequences, the same on every surface."""
