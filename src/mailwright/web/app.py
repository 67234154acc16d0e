"""Build the HTTP application: all routes, error handling and middleware."""

from functools import cache
from http import HTTPStatus

from fastapi import FastAPI
from starlette.routing import BaseRoute

from mailwright import __version__
from mailwright.app.wiring import Engine
from mailwright.checks.health_watch import HealthWatch
from mailwright.web import manual
from mailwright.web.api import (
    articles,
    contact_events,
    email,
    health,
    inbound,
    mailouts,
    progress,
    reports,
)
from mailwright.web.api.derived import ROUTERS as DERIVED_ROUTERS
from mailwright.web.api.dropin import ROUTERS as DROP_IN_ROUTERS
from mailwright.web.api.dropin.unknown_routes import with_formats_of_services
from mailwright.web.api.openapi import describe_app
from mailwright.web.api.routes import require_permissions
from mailwright.web.api_reference import pages as api_reference_pages
from mailwright.web.body_limits import LimitBodies
from mailwright.web.cache import InvalidateOnWrite, ResultCache
from mailwright.web.dashboard import pages as dashboard_pages
from mailwright.web.dashboard.shell import page_not_found
from mailwright.web.errors import handle_problems
from mailwright.web.live import LiveUpdates
from mailwright.web.mcp import route as mcp
from mailwright.web.methods import nearest_page_handler, undeclared_methods
from mailwright.web.public.routers import ROUTERS as PUBLIC_ROUTERS
from mailwright.web.reject_nul import RejectNul
from mailwright.web.request_ids import RequestIds
from mailwright.web.route_index import RouteIndex
from mailwright.web.tracked_links import TrackedLinks

API = (
    email,
    contact_events,
    articles,
    mailouts,
    progress,
    reports,
    inbound,
    health,
)
ROUTERS = (
    *(routes.router for routes in API),
    *DERIVED_ROUTERS,
    *DROP_IN_ROUTERS,
    mcp.router,
    manual.router,
    api_reference_pages.router,
    *PUBLIC_ROUTERS,
    *dashboard_pages.ROUTERS,
)


require_permissions(route for router in ROUTERS for route in router.routes)


def create_app(engine: Engine) -> FastAPI:
    """Build the HTTP application on a running engine.

    `app.state` also holds functions for the server: it calls `stop` at the start of a shutdown, to end open streams;
    `finish` before the database is closed; and `run_upkeep` periodically, to resume imports of a killed process, and to
    delete its temporary files and old failed sign-ins.
    """
    app = FastAPI(
        title="Mailwright",
        version=__version__,
        description="Send email and track what happened to it.",
        # FastAPI's interactive documentation loads scripts from another host; `api_reference` serves ours.
        docs_url=None,
        redoc_url=None,
    )
    live_updates, result_cache = LiveUpdates(engine.database, engine.clock), ResultCache()

    async def finish() -> None:
        await live_updates.finish()
        await engine.import_uploads.close()
        await engine.switch_uploads.close()

    async def run_upkeep() -> None:
        await engine.failed_sign_ins.delete_expired()
        await engine.import_uploads.resume_interrupted()
        await engine.import_uploads.delete_abandoned_files()

    app.state.engine = engine
    app.state.live_updates = live_updates
    app.state.result_cache = result_cache
    app.state.health_watch = HealthWatch(engine.settings, engine.database, engine.clock)
    app.state.stop = live_updates.close
    app.state.finish = finish
    app.state.run_upkeep = run_upkeep
    _add_routes(app)
    handle_problems(app)
    app.add_exception_handler(HTTPStatus.NOT_FOUND, with_formats_of_services(page_not_found))
    app.add_exception_handler(HTTPStatus.METHOD_NOT_ALLOWED, with_formats_of_services(nearest_page_handler(ROUTERS)))
    app.add_middleware(InvalidateOnWrite, result_cache=result_cache)
    app.add_middleware(RejectNul)
    app.add_middleware(LimitBodies, import_bytes=engine.settings.import_bytes)
    app.add_middleware(RequestIds, clock=engine.clock)
    app.add_middleware(TrackedLinks, redirects=engine.redirects)
    describe_app(app, server=engine.public_url)
    return app


def _add_routes(app: FastAPI) -> None:
    # A path with a parameter of one router may match a fixed path of a later one.
    for refusals in _method_refusals():
        app.router.routes.extend(refusals)
    for router in ROUTERS:
        app.router.routes.extend(router.routes)
    app.router.middleware_stack = RouteIndex(app.router)


@cache
def _method_refusals() -> list[list[BaseRoute]]:
    return undeclared_methods(ROUTERS)
