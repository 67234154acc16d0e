"""Mailwright: one self-hosted engine for all the mail that a team sends."""
