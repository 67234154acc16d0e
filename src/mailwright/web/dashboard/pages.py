"""The pages of the dashboard, in one list."""

from typing import Final

from mailwright.web.dashboard import (
    account,
    articles,
    articles_runs,
    articles_slices,
    assets,
    campaigns,
    campaigns_attachments,
    campaigns_compose,
    campaigns_excluded,
    campaigns_reports,
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
    # Fixed paths come before paths with an id, because the first match wins.
    campaigns_compose.router,
    campaigns_excluded.router,
    campaigns_attachments.router,
    campaigns_reports.router,
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
    # Paths that begin with ~ come before paths that begin with an article key.
    articles_slices.router,
    articles_runs.router,
    articles.router,
    notifications.router,
    mailouts.router,
)
