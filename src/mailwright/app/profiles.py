"""Wire the table of another program that has the recipients of articles, and run its background work."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from mailwright.app.turns import has_turn
from mailwright.domain.clock import SECOND, Clock
from mailwright.domain.errors import ConfigurationInvalid, NotDurable
from mailwright.ops.logs import logger
from mailwright.ops.periodic import exponential, run_periodically
from mailwright.ops.settings import Settings
from mailwright.outbox.ledger import DatabaseLedger
from mailwright.providers.http import HttpClient
from mailwright.sources.articles.profiles.columns import COLUMNS, KEY, TABLE, URL, parse_columns, parse_table
from mailwright.sources.articles.profiles.errors import ProfilesError
from mailwright.sources.articles.profiles.list_write_back import ProfileListWriteBack
from mailwright.sources.articles.profiles.postgresql import PostgresqlProfiles
from mailwright.sources.articles.profiles.reader import ProfileReader
from mailwright.sources.articles.profiles.supabase import SupabaseProfiles
from mailwright.sources.articles.profiles.table import ProfileSource, ProfileTable
from mailwright.sources.articles.profiles.write_back import ProfileWriteBack
from mailwright.sources.supabase import find_key_problem
from mailwright.storage.database import Database, parse_url
from mailwright.storage.postgresql_url import looks_like_postgresql

IDLE_SECONDS: Final = 1.0
# Without the setting, only the runs that began with it are checked.
UNUSED_SECONDS: Final = 60.0
MAX_RETRY_SECONDS: Final = 300.0
WRITE_BACK_INTERVAL: Final = 2 * SECOND

log = logger(__name__)


def verify_profiles(settings: Settings) -> None:
    """Raise `ConfigurationInvalid` with all problems at once."""
    if settings.profiles_url is None:
        if settings.profiles_key is not None:
            raise ConfigurationInvalid(f"{KEY}: set both this and {URL}, or neither")
        return
    problems: list[str] = []
    checks: dict[str, Callable[[], object]] = {
        URL: lambda: _check_url(settings.profiles_url or ""),
        KEY: lambda: _check_key(settings),
        TABLE: lambda: parse_table(settings.profiles_table),
        COLUMNS: lambda: parse_columns(settings.profiles_columns),
    }
    for name, check in checks.items():
        try:
            check()
        except ConfigurationInvalid as error:
            problems += error.of(name).problems
    if problems:
        raise ConfigurationInvalid(*problems)


def make_profiles(
    settings: Settings, database: Database, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> ProfileSource | None:
    """Return the table of recipients, or None if articles go to contacts. It connects on first use."""
    url = settings.profiles_url
    if url is None:
        return None
    verify_profiles(settings)
    name, columns = parse_table(settings.profiles_table), parse_columns(settings.profiles_columns)
    table: ProfileTable
    if _is_supabase(url):
        key = settings.profiles_key
        assert key is not None, "verified"
        http = HttpClient(connections=4)
        table = SupabaseProfiles(http, url, key.get_secret_value(), name, columns, sleep=sleep)
    else:
        table = PostgresqlProfiles(Database(url, connections=4, is_ours=False), name, columns)
    return ProfileSource(database, table, settings.profiles_tenant)


@asynccontextmanager
async def open_profiles(settings: Settings, database: Database) -> AsyncIterator[ProfileSource | None]:
    """Open the table for one command."""
    source = make_profiles(settings, database)
    try:
        yield source
    finally:
        if source is not None:
            await source.table.close()


async def run_profiles(source: ProfileSource | None, database: Database, clock: Clock) -> None:
    """Read the recipients of runs and write statuses and lists back, until cancelled."""
    reader = ProfileReader(database, clock, source)
    ledger = DatabaseLedger(database, clock)
    async with asyncio.TaskGroup() as loops:
        loops.create_task(_repeat("profiles", reader.tick, IDLE_SECONDS if source else UNUSED_SECONDS))
        if source is not None:
            statuses, lists = ProfileWriteBack(database, clock, source), ProfileListWriteBack(database, clock, source)

            async def write_in_turn(turn: str, write: Callable[[], Awaitable[int]]) -> bool:
                """Write in one process at a time. Writing twice is harmless, but doubles the load."""
                return await has_turn(turn, WRITE_BACK_INTERVAL, ledger, clock) and bool(await write())

            # Two loops, so that a column that cannot be written does not delay the other one.
            write_statuses = partial(write_in_turn, "profile-status-sync", statuses.tick)
            write_lists = partial(write_in_turn, "profile-list-sync", lists.tick)
            loops.create_task(_repeat("profile_statuses", write_statuses, IDLE_SECONDS))
            loops.create_task(_repeat("profile_lists", write_lists, IDLE_SECONDS))


async def drain_profiles(source: ProfileSource | None, database: Database, clock: Clock) -> None:
    """Read the recipients of all runs, and write all statuses and lists."""
    reader = ProfileReader(database, clock, source)
    while await reader.tick():
        pass
    if source is None:
        return
    for write_back in (ProfileWriteBack(database, clock, source), ProfileListWriteBack(database, clock, source)):
        try:
            while await write_back.tick():
                pass
        except ProfilesError as error:
            log.warning("profile_statuses_postponed", code=error.code, reason=str(error))


async def _repeat(name: str, work: Callable[[], Awaitable[bool]], seconds: float) -> None:
    async def run_once() -> float:
        return 0.0 if await work() else seconds

    await run_periodically(
        name,
        run_once,
        seconds=seconds,
        expected=(NotDurable, ProfilesError),
        retry_seconds=exponential(2 * IDLE_SECONDS, MAX_RETRY_SECONDS),
    )


def _is_supabase(url: str) -> bool:
    return url.startswith(("https://", "http://"))


def _check_url(url: str) -> None:
    if _is_supabase(url):
        return
    if looks_like_postgresql(url):
        try:
            parse_url(url, URL)
        except ConfigurationInvalid as error:
            raise ConfigurationInvalid(*(each.removeprefix(f"{URL}: ") for each in error.problems)) from error
    else:
        raise ConfigurationInvalid(
            "must look like https://abcdefgh.supabase.co or postgresql://user:password@host/database"
        )


def _check_key(settings: Settings) -> None:
    key = settings.profiles_key
    if not _is_supabase(settings.profiles_url or ""):
        if key is not None:
            raise ConfigurationInvalid(f"only Supabase needs a key; remove it, or correct {URL}")
        return
    if key is None:
        raise ConfigurationInvalid("set it to the service_role key or a secret key of the Supabase project")
    if (problem := find_key_problem(key.get_secret_value())) is not None:
        raise ConfigurationInvalid(problem)
