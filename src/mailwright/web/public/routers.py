"""The routers of the public pages."""

from mailwright.web.public import archive, confirm, form_pages, images, preferences, sign_up, sns, unsubscribe, web_view

ROUTERS = (
    unsubscribe.router,
    preferences.router,
    confirm.router,
    sign_up.router,
    form_pages.router,
    web_view.router,
    archive.router,
    images.router,
    sns.router,
)
