"""Public pages: sign-up, confirmation, unsubscribe, preferences, web view, archive. No cookies.

Only sign-up forms have a script, and work without it.
"""

from mailwright.web.public import archive, confirm, form_pages, preferences, sign_up, unsubscribe, web_view
from mailwright.web.public.subscribers import page_not_found

__all__ = ["ROUTERS", "page_not_found"]

ROUTERS = (
    unsubscribe.router,
    preferences.router,
    confirm.router,
    sign_up.router,
    form_pages.router,
    web_view.router,
    archive.router,
)
