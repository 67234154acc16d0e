"""Decide when messages may be sent, with pure functions of limits and a time. Callers reserve permits and defer."""
