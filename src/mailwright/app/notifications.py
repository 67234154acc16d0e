"""Serving a queue of notifications: it is opened and looked at, and its rows are fanned out beside a sending worker."""

import asyncio
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from mailwright.app.serving import Shutdown, work
from mailwright.app.wiring import Engine
from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import SECOND, Clock
from mailwright.domain.errors import ConfigurationInvalid, NotDurable
from mailwright.ops.logs import logger
from mailwright.ops.periodic import exponential, run_periodically
from mailwright.ops.settings import Settings
from mailwright.outbox import tenants
from mailwright.sources.notifications import event_kinds
from mailwright.sources.notifications.decisions import NotificationConfig
from mailwright.sources.notifications.fanout import NotificationFanout
from mailwright.sources.notifications.queue import NotificationQueue, open_queue
from mailwright.sources.notifications.service import NotificationService
from mailwright.sources.notifications.tables import redacted_url
from mailwright.sources.notifications.templates import NotificationTemplates
from mailwright.storage.database import Database, parse_url

# Between two looks at the queue, when nothing was due at the last one.
POLL_SECONDS = 0.5
# Results are told this often while mails are being sent.
RECORD_SECONDS = 0.1
# Rows that are handed over before results get their turn.
MAX_ROWS_PER_CLAIM = 1_000
# Rows that a worker holds at most: each of their locks must be renewed while their mails wait.
MAX_LOCKED_ROWS = 5_000
# A look that found nothing to do is followed by a pause of so many times its length: thousands of rows that wait for
# their morning should not keep a worker busy. Nor should a new row wait long for them.
PAUSE_PER_LOOK = 9
LONGEST_PAUSE_SECONDS = 5.0
FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 0.1, 5.0

log = logger(__name__)


def notification_config(settings: Settings) -> NotificationConfig:
    base_url = (settings.notify_base_url or settings.public_url).rstrip("/")
    declared = event_kinds.load_event_kinds(settings.notify_kinds, settings.lock_ttl_seconds * SECOND)
    return NotificationConfig(declared, base_url, settings.notify_locale, settings.timezone)


@asynccontextmanager
async def open_configured_queue(settings: Settings, ours: Database) -> AsyncIterator[NotificationQueue]:
    """In our own database where it is the same one; nothing of another's is made or changed."""
    async with open_queue_database(settings, ours) as database:
        if _is_missing(database):
            raise ConfigurationInvalid(f"MAILWRIGHT_NOTIFY_DATABASE_URL: there is no file at {redacted_url(database)}")
        yield await open_queue(database, settings.notify_schema, is_shared=database is ours)


@asynccontextmanager
async def open_notification_service(
    settings: Settings, ours: Database, clock: Clock
) -> AsyncIterator[NotificationService]:
    async with open_configured_queue(settings, ours) as queue:
        tenant = await tenants.find(ours, settings.notify_tenant)
        yield NotificationService(ours, clock, queue, notification_config(settings), tenant.id)


def notification_service_opener(
    settings: Settings, ours: Database, clock: Clock
) -> Callable[[], AbstractAsyncContextManager[NotificationService]] | None:
    """For those who look at the queue now and then: each look opens it by itself."""
    if settings.notify_database_url is None:
        return None
    return partial(open_notification_service, settings, ours, clock)


@asynccontextmanager
async def open_queue_database(settings: Settings, ours: Database) -> AsyncIterator[Database]:
    """One commit holds a message and its row only where both are in one PostgreSQL database."""
    if settings.notify_database_url is None:
        raise ConfigurationInvalid(
            "MAILWRIGHT_NOTIFY_DATABASE_URL: names no queue; set it or give --database, as in sqlite:///queue.db"
        )
    is_shared = settings.notify_schema is not None and _is_same(settings, ours)
    database = ours if is_shared else Database(_queue_url(settings), is_ours=False)
    try:
        yield database
    finally:
        if not is_shared:
            await database.close()


async def make_fanout(
    settings: Settings,
    database: Database,
    clock: Clock,
    templates: TemplateStore,
    queue: NotificationQueue,
    *,
    worker: str | None = None,
) -> NotificationFanout:
    house = notification_config(settings)
    tenant = await tenants.find(database, settings.notify_tenant)
    letters = NotificationTemplates(database, clock, templates, tenant.id, house.kinds)
    await letters.publish()
    name = worker or f"mailwright-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    return NotificationFanout(database, clock, queue, letters, house, tenant_id=tenant.id, worker=name)


async def notify(engine: Engine, shutdown: Shutdown, *, drain: bool) -> None:
    """Serves the queue until it is told to stop; with `drain`, until nothing is due."""
    async with open_configured_queue(engine.settings, engine.database) as queue:
        fanout = await make_fanout(engine.settings, engine.database, engine.clock, engine.templates, queue)
        log.info("queue_opened", queue=redacted_url(queue.database), drain=drain)
        if drain:
            await _drain(engine, fanout, shutdown)
        else:
            await _serve(engine, fanout, shutdown)
        log.info("queue_closed")


async def _drain(engine: Engine, fanout: NotificationFanout, shutdown: Shutdown) -> None:
    is_stopped = asyncio.Event()
    shutdown.calls(is_stopped.set)
    while not is_stopped.is_set():
        told = await fanout.record_results()
        taken = await fanout.claim_due(MAX_ROWS_PER_CLAIM * 10)
        async with _looking_after(fanout):
            await work(engine, shutdown, drain=True)
        told += await fanout.record_results()
        if not told and not taken:
            break
    await fanout.release_locks()


async def _serve(engine: Engine, fanout: NotificationFanout, shutdown: Shutdown) -> None:
    async with _looking_after(fanout), _taking(engine, fanout, shutdown):
        await work(engine, shutdown, drain=False)
    with suppress(NotDurable):
        await fanout.record_results()
        await fanout.release_locks()


@asynccontextmanager
async def _looking_after(fanout: NotificationFanout) -> AsyncIterator[None]:
    """Results are told and locks renewed while mails are being sent."""

    async def look_after() -> float:
        await fanout.record_results()
        await fanout.renew_locks()
        return RECORD_SECONDS

    async with _beside(repeat(look_after, asyncio.Event())):
        yield


@asynccontextmanager
async def _taking(engine: Engine, fanout: NotificationFanout, shutdown: Shutdown) -> AsyncIterator[None]:
    is_stopped = asyncio.Event()
    shutdown.calls(is_stopped.set)

    async def claim_due() -> float:
        room = MAX_LOCKED_ROWS - await fanout.count_locked_rows()
        if room <= 0:
            return RECORD_SECONDS
        began = time.monotonic()
        if await fanout.claim_due(min(room, MAX_ROWS_PER_CLAIM)):
            engine.wake.set()
            return 0.0
        return min(max(POLL_SECONDS, PAUSE_PER_LOOK * (time.monotonic() - began)), LONGEST_PAUSE_SECONDS)

    async with _beside(repeat(claim_due, is_stopped)):
        yield


def repeat(duty: Callable[[], Awaitable[float]], is_stopped: asyncio.Event) -> Coroutine[Any, Any, None]:
    """Run a duty of the queue until stopped. If a database is unavailable, retry after growing pauses."""
    return run_periodically(
        "notifications",
        duty,
        seconds=POLL_SECONDS,
        raises_unexpected=True,
        retry_seconds=exponential(FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS),
        stop=is_stopped,
    )


@asynccontextmanager
async def _beside(duty: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Should the duty break, so does what it is beside: somebody must notice."""
    async with asyncio.TaskGroup() as tasks:
        doing = tasks.create_task(duty)
        try:
            yield
        finally:
            doing.cancel()


def _is_missing(database: Database) -> bool:
    return database.dialect == "sqlite" and not Path(str(database.url.database)).exists()


def _queue_url(settings: Settings) -> str:
    try:
        url = settings.notify_database_url or ""
        parse_url(url)
    except ConfigurationInvalid as error:
        renamed = [each.replace("MAILWRIGHT_DATABASE_URL", "MAILWRIGHT_NOTIFY_DATABASE_URL") for each in error.problems]
        raise ConfigurationInvalid(*renamed) from error
    return url


def _is_same(settings: Settings, ours: Database) -> bool:
    """One commit can hold both only on PostgreSQL: on SQLite the names of the queue's tables are taken by ours."""
    theirs = parse_url(_queue_url(settings))
    place = ("host", "port", "database", "query")
    return ours.dialect == "postgresql" and all(getattr(theirs, each) == getattr(ours.url, each) for each in place)
