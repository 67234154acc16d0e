"""Disable time limits of examples: on shared machines they say nothing about the code."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
