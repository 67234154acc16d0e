"""Public pages: sign-up, confirmation, unsubscribe, preferences, web view, archive. No scripts, no cookies."""

from mailwright.web.public import archive, confirm, preferences, sign_up, unsubscribe, web_view
from mailwright.web.public.subscribers import page_not_found

__all__ = ["ROUTERS", "page_not_found"]

ROUTERS = (
    unsubscribe.router,
    preferences.router,
    confirm.router,
    sign_up.router,
    web_view.router,
    archive.router,
)
