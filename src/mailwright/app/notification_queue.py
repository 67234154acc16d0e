"""Open the notification queue: its database, the service for requests, and the fan-out for workers."""

import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import SECOND, Clock
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.ops.settings import Settings
from mailwright.outbox import tenants
from mailwright.sources.notifications import event_kinds
from mailwright.sources.notifications.decisions import NotificationConfig
from mailwright.sources.notifications.fanout import NotificationFanout
from mailwright.sources.notifications.queue import NotificationQueue, open_queue
from mailwright.sources.notifications.service import NotificationService
from mailwright.sources.notifications.tables import redacted_url
from mailwright.sources.notifications.templates import NotificationTemplates
from mailwright.storage.database import Database, is_missing, parse_url


def notification_config(settings: Settings) -> NotificationConfig:
    base_url = (settings.notify_base_url or settings.public_url).rstrip("/")
    declared = event_kinds.load_event_kinds(settings.notify_kinds, settings.lock_ttl_seconds * SECOND)
    leaves_others = settings.notify_other_channels == "leave"
    return NotificationConfig(declared, base_url, settings.notify_locale, settings.timezone, leaves_others)


@asynccontextmanager
async def open_configured_queue(settings: Settings, ours: Database) -> AsyncIterator[NotificationQueue]:
    """Open the configured queue. Never create or alter its tables, which belong to another program."""
    async with open_queue_database(settings, ours) as database:
        if is_missing(database):
            raise ConfigurationInvalid(f"MAILWRIGHT_NOTIFY_DATABASE_URL: no file exists at {redacted_url(database)}")
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
    """Return a function that opens the service for one request, or None if no queue is configured."""
    if settings.notify_database_url is None:
        return None
    return partial(open_notification_service, settings, ours, clock)


@asynccontextmanager
async def open_queue_database(settings: Settings, ours: Database) -> AsyncIterator[Database]:
    """Open the database of the queue: our own if it is the same PostgreSQL database, so that one commit covers both."""
    if settings.notify_database_url is None:
        raise ConfigurationInvalid(
            "MAILWRIGHT_NOTIFY_DATABASE_URL: not set; set it to the URL of the queue, for example sqlite:///queue.db"
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
    config = notification_config(settings)
    tenant = await tenants.find(database, settings.notify_tenant)
    notification_templates = NotificationTemplates(database, clock, templates, tenant.id, config.kinds)
    await notification_templates.publish()
    name = worker or f"mailwright-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    return NotificationFanout(database, clock, queue, notification_templates, config, tenant_id=tenant.id, worker=name)


def _queue_url(settings: Settings) -> str:
    url = settings.notify_database_url or ""
    parse_url(url, "MAILWRIGHT_NOTIFY_DATABASE_URL")
    return url


def _is_same(settings: Settings, ours: Database) -> bool:
    """Return whether the queue is in our own database. On SQLite it cannot be, because table names would clash."""
    theirs = parse_url(_queue_url(settings))
    parts = ("host", "port", "database", "query")
    return ours.dialect == "postgresql" and all(getattr(theirs, part) == getattr(ours.url, part) for part in parts)
