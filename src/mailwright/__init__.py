"""Mailwright: a self-hosted engine for all email that a team sends."""

__version__ = "0.2.0"
