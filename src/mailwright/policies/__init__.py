"""Decide when messages may be sent. These are pure functions of limits and a time; callers reserve and defer."""
