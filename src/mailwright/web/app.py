"""The HTTP application: its routes in one place, and the few things that hold for all of them."""

from http import HTTPStatus
from importlib.metadata import version

from fastapi import FastAPI

from mailwright.web import public
from mailwright.web.api import (
    archive,
    articles,
    audit_log,
    campaigns,
    contacts,
    dead_letters,
    email,
    forecast,
    health,
    images,
    imports,
    inbound,
    lists,
    mailouts,
    notifications,
    progress,
    providers,
    segments,
    suppressions,
    templates,
    webhooks,
)
from mailwright.web.api.openapi import describe
from mailwright.web.cache import InvalidateOnWrite
from mailwright.web.dashboard import pages as dashboard_pages
from mailwright.web.errors import handle_problems
from mailwright.web.parts import ApiParts
from mailwright.web.reject_nul import RejectNul
from mailwright.web.request_ids import RequestIds

__all__ = ["ApiParts", "create_app"]


def create_app(parts: ApiParts) -> FastAPI:
    app = FastAPI(
        title="Mailwright",
        version=version("mailwright"),
        description="Send mail, and know what happened to it.",
        # Pages that explore the description load scripts from elsewhere; the description itself is enough.
        docs_url=None,
        redoc_url=None,
    )
    app.state.parts = parts
    # Whoever stops the server calls this first: answers that do not end by themselves end then.
    app.state.stop = parts.live.close
    # And this last, before the database is closed: nobody asks it anything any more.
    app.state.finish = parts.finish
    # And whoever runs it calls this now and then: work that another process was cut off from goes on here.
    app.state.look_after = parts.import_uploads.resume_interrupted
    for routes in (
        email,
        dead_letters,
        imports,
        contacts,
        segments,
        lists,
        suppressions,
        templates,
        images,
        forecast,
        campaigns,
        archive,
        articles,
        mailouts,
        notifications,
        progress,
        providers,
        audit_log,
        webhooks,
        inbound,
        health,
    ):
        app.include_router(routes.router)
    for router in public.ROUTERS:
        app.include_router(router)
    for router in dashboard_pages.ROUTERS:
        app.include_router(router)
    handle_problems(app)
    app.add_exception_handler(HTTPStatus.NOT_FOUND, public.page_not_found)
    app.add_middleware(InvalidateOnWrite, kept=parts.kept)
    app.add_middleware(RejectNul)
    app.add_middleware(RequestIds, clock=parts.clock)
    describe(app, server=parts.public_url)
    return app
