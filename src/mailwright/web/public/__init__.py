"""Pages for readers: leaving, coming back and choosing. Plain HTML in the reader's language, no script, no cookie."""

from mailwright.web.public import confirm, preferences, unsubscribe

ROUTERS = (unsubscribe.router, preferences.router, confirm.router)
