"""Access the shared services of the application in a request: engine, live updates and result cache."""

from typing import Annotated

from fastapi import Depends, Request

from mailwright.app.wiring import Engine
from mailwright.checks.health_watch import HealthWatch
from mailwright.web.cache import ResultCache
from mailwright.web.live import LiveUpdates


def engine_of(request: Request) -> Engine:
    engine: Engine = request.app.state.engine
    return engine


def live_updates_of(request: Request) -> LiveUpdates:
    live_updates: LiveUpdates = request.app.state.live_updates
    return live_updates


def result_cache_of(request: Request) -> ResultCache:
    result_cache: ResultCache = request.app.state.result_cache
    return result_cache


def health_watch_of(request: Request) -> HealthWatch:
    health_watch: HealthWatch = request.app.state.health_watch
    return health_watch


async def _engine(request: Request) -> Engine:
    return engine_of(request)


# These functions are asynchronous because FastAPI runs plain functions in a thread for every request.
EngineDep = Annotated[Engine, Depends(_engine)]
