"""Relay the outbox table of an application: open its database, and accept its rows until stopped."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import inspect

from mailwright.app.wiring import Engine
from mailwright.domain.errors import ConfigurationInvalid, NotDurable, NotFound
from mailwright.ops.logs import logger
from mailwright.ops.periodic import exponential, run_periodically
from mailwright.outbox import tenants
from mailwright.sources.notifications.tables import redacted_url
from mailwright.sources.outbox_table.relay import OutboxRelay
from mailwright.storage.database import Database, is_missing, parse_url
from mailwright.storage.outbox_table import TABLE, outbox_rows

SETTING = "MAILWRIGHT_OUTBOX_DATABASE_URL"
# The pause between two polls of the table when nothing is pending.
POLL_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 5.0
_BACKOFF = exponential(0.1, MAX_BACKOFF_SECONDS)

log = logger(__name__)


@asynccontextmanager
async def open_application_database(url: str | None) -> AsyncIterator[Database]:
    """Open the database of an application without changing its settings."""
    if url is None:
        raise ConfigurationInvalid(f"{SETTING}: not set; set it to the application's database, or use --database URL")
    parse_url(url, SETTING)
    database = Database(url, is_ours=False, connections=4)
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def open_relay(engine: Engine) -> AsyncIterator[OutboxRelay]:
    """Open the table. Raise if it does not exist or its database is not reachable."""
    settings = engine.settings
    tenant = await tenants.find(engine.database, settings.outbox_tenant)
    async with open_application_database(settings.outbox_database_url) as database:
        await _require_table(database)
        log.info("outbox_table_opened", database=redacted_url(database), tenant=tenant.name)
        yield OutboxRelay(database, engine.clock, engine.api_messages, engine.acceptor, tenant)


async def relay_table(relay: OutboxRelay, stop: asyncio.Event | None = None) -> None:
    """Accept rows until stopped. While a database is not reachable, retry after growing pauses."""

    async def accept_batch() -> float:
        return 0.0 if await relay.relay() else POLL_SECONDS

    await run_periodically("outbox_table", accept_batch, seconds=POLL_SECONDS, retry_seconds=_BACKOFF, stop=stop)


async def run_outbox_table(engine: Engine) -> None:
    """Relay the configured table, if there is one. If it cannot be opened, the other services still run."""

    async def open_and_relay() -> None:
        async with open_relay(engine) as relay:
            await relay_table(relay)

    if engine.settings.outbox_database_url is not None:
        expected = (NotDurable, ConfigurationInvalid, NotFound)
        await run_periodically("outbox_table", open_and_relay, seconds=MAX_BACKOFF_SECONDS, expected=expected)


async def drain_outbox_table(relay: OutboxRelay) -> int:
    """Accept all pending rows, and return their number."""
    accepted = 0
    while count := await relay.relay():
        accepted += count
    return accepted


async def _require_table(database: Database) -> None:
    """Raise unless the table exists with all columns. An application may have created or changed it itself."""
    found: set[str] = set()

    def read_columns(connection: Any) -> None:
        inspector = inspect(connection)
        if inspector.has_table(TABLE):
            found.update(each["name"] for each in inspector.get_columns(TABLE))

    if not is_missing(database):
        await database.run_sync_ddl(read_columns, read_only=True)
    place = redacted_url(database)
    if not found:
        raise ConfigurationInvalid(
            f"{SETTING}: {place} has no table {TABLE}; create it with `mailwright outbox init --database {place}`"
        )
    if missing := [each.name for each in outbox_rows.columns if each.name not in found]:
        raise ConfigurationInvalid(
            f"{SETTING}: the table {TABLE} of {place} has no column {', '.join(missing)}; add it as "
            "`mailwright outbox init --print` shows it"
        )
