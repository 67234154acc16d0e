"""The routers of the public pages."""

from mailwright.web.public import archive, confirm, form_pages, preferences, sign_up, unsubscribe, web_view

ROUTERS = (
    unsubscribe.router,
    preferences.router,
    confirm.router,
    sign_up.router,
    form_pages.router,
    web_view.router,
    archive.router,
)
