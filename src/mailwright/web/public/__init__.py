"""Public pages: sign-up, confirmation, unsubscribe, preferences, web view, archive. No cookies.

Only sign-up forms have a script, and work without it.
"""
