"""Mailwright: a self-hosted engine for all email that a team sends."""
