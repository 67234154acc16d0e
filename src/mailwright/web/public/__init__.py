"""Pages for readers: leaving, coming back and choosing. Plain HTML in the reader's language, no script, no cookie."""

from mailwright.web.public import preferences, unsubscribe

ROUTERS = (unsubscribe.router, preferences.router)
