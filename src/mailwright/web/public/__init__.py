"""Pages for readers: joining, leaving, choosing, reading. Plain HTML in the reader's language, no script, no cookie."""

from mailwright.web.public import archive, confirm, preferences, sign_up, unsubscribe, web_view
from mailwright.web.public.readers import nothing_here

__all__ = ["ROUTERS", "nothing_here"]

ROUTERS = (
    unsubscribe.router,
    preferences.router,
    confirm.router,
    sign_up.router,
    web_view.router,
    archive.router,
)
