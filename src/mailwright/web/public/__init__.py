"""Pages for readers: joining, leaving, choosing, reading. Plain HTML in the reader's language, no script, no cookie."""

from mailwright.web.public import archive, confirm, preferences, sign_up, unsubscribe, web_view

ROUTERS = (
    unsubscribe.router,
    preferences.router,
    confirm.router,
    sign_up.router,
    web_view.router,
    archive.router,
)
