"""Machines are shared: an example that takes longer than usual says nothing about the code."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
