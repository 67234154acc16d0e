"""The pages of the dashboard, in one list."""

from typing import Final

from mailwright.web.dashboard import (
    account,
    articles,
    articles_runs,
    articles_slices,
    assets,
    campaigns,
    campaigns_compose,
    contacts,
    imports,
    lists,
    mailbox,
    mailouts,
    messages,
    notifications,
    overview,
    segments,
    settings,
    sign_in,
    suppressions,
    templates_pages,
    webhooks,
)

ROUTERS: Final = (
    assets.router,
    sign_in.router,
    account.router,
    overview.router,
    # Its fixed addresses before those with an id.
    campaigns_compose.router,
    campaigns.router,
    templates_pages.router,
    settings.router,
    contacts.router,
    imports.router,
    lists.router,
    segments.router,
    suppressions.router,
    messages.router,
    mailbox.router,
    webhooks.router,
    # Likewise: what begins with ~ before what begins with a key.
    articles_slices.router,
    articles_runs.router,
    articles.router,
    notifications.router,
    mailouts.router,
)
