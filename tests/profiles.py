"""A table of recipients for tests, in Supabase and in PostgreSQL, and a bench whose articles go to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import asyncpg
import pytest

from mailwright.app.profiles import make_profiles
from mailwright.domain.clock import ManualClock
from mailwright.sources.articles.enqueue import ArticleScheduler
from mailwright.sources.articles.profiles import postgresql
from mailwright.sources.articles.profiles.list_write_back import ProfileListWriteBack
from mailwright.sources.articles.profiles.reader import ProfileReader
from mailwright.sources.articles.profiles.table import ProfileSource
from mailwright.sources.articles.profiles.write_back import ProfileWriteBack
from mailwright.sources.articles.runs import ArticleRun
from mailwright.sources.supabase import rest
from tests.builders import DEFAULT_TENANT, Bench, a_bench
from tests.engines import PostgresServer
from tests.standins.supabase import SECRET_KEY, SupabaseStandIn

COLUMNS = ("email", "ocd_ids", "state", "lists", "mail_status", "note")
DDL = "CREATE TABLE profiles (email text, ocd_ids text[], state text, lists text[], mail_status text, note text)"


class Owner(Protocol):
    """The program that owns the table, and what it does there."""

    settings: dict[str, Any]

    async def add(self, email: Any, *ocd_ids: str, **fields: Any) -> None: ...

    async def rows(self) -> list[dict[str, Any]]: ...

    async def set_lists(self, email: str, lists: Any) -> None: ...

    async def drop_column(self, name: str) -> None: ...

    async def hide_rows(self) -> None:
        """Hide all rows without an error, as row level security does."""
        ...

    async def refuse_access(self) -> None: ...


class SupabaseOwner:
    def __init__(self, server: SupabaseStandIn) -> None:
        self.server = server
        self.settings = {"profiles_url": server.url, "profiles_key": SECRET_KEY}
        server.columns["profiles"] = dict.fromkeys(COLUMNS)
        server._tables["profiles"] = []

    async def add(self, email: Any, *ocd_ids: str, **fields: Any) -> None:
        self.server.add("profiles", email=email, ocd_ids=list(ocd_ids), **fields)

    async def rows(self) -> list[dict[str, Any]]:
        return self.server.rows("profiles")

    async def set_lists(self, email: str, lists: Any) -> None:
        for row in self.server.rows("profiles"):
            if row["email"] == email:
                row["lists"] = lists

    async def drop_column(self, name: str) -> None:
        columns = self.server.columns["profiles"]
        self.server.columns["profiles"] = {each: columns[each] for each in columns if each != name}

    async def hide_rows(self) -> None:
        self.server.keys[SECRET_KEY] = "authenticated"

    async def refuse_access(self) -> None:
        del self.server.keys[SECRET_KEY]


class PostgresqlOwner:
    def __init__(self, connection: asyncpg.Connection, url: str) -> None:
        self.connection = connection
        self.settings = {"profiles_url": url.replace("postgres:", "reader:", 1)}

    async def add(self, email: Any, *ocd_ids: str, **fields: Any) -> None:
        row = {"email": email, "ocd_ids": list(ocd_ids), **fields}
        names = ", ".join(f"${number}" for number in range(1, len(row) + 1))
        await self.connection.execute(f"INSERT INTO profiles ({', '.join(row)}) VALUES ({names})", *row.values())

    async def rows(self) -> list[dict[str, Any]]:
        return [dict(row) for row in await self.connection.fetch("SELECT * FROM profiles")]

    async def set_lists(self, email: str, lists: Any) -> None:
        await self.connection.execute("UPDATE profiles SET lists = $2 WHERE email = $1", email, lists)

    async def drop_column(self, name: str) -> None:
        await self.connection.execute(f"ALTER TABLE profiles DROP COLUMN {name}")

    async def hide_rows(self) -> None:
        await self.connection.execute("ALTER TABLE profiles ENABLE ROW LEVEL SECURITY")

    async def refuse_access(self) -> None:
        await self.connection.execute("REVOKE ALL ON profiles FROM profile_reader")


@asynccontextmanager
async def an_owner(kind: str, server: PostgresServer) -> AsyncIterator[Any]:
    if kind == "supabase":
        async with SupabaseStandIn() as supabase:
            yield SupabaseOwner(supabase)
        return
    url = await server.create_empty()
    connection = await asyncpg.connect(url)
    try:
        if not await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = 'profile_reader'"):
            await connection.execute("CREATE ROLE profile_reader LOGIN")
        await connection.execute(DDL)
        await connection.execute("GRANT USAGE ON SCHEMA public TO profile_reader")
        await connection.execute("GRANT SELECT, UPDATE (mail_status, lists) ON profiles TO profile_reader")
        owner = PostgresqlOwner(connection, url)
        owner.settings = {"profiles_url": _as_reader(url)}
        yield owner
    finally:
        await connection.close()
        await server.drop_empty(url)


def _as_reader(url: str) -> str:
    """Return the URL for a user that may read the table and write two columns."""
    scheme, _, rest_of_url = url.partition("://")
    return f"{scheme}://profile_reader@{rest_of_url.partition('@')[2]}"


async def no_wait(_seconds: float) -> None:
    """Do not sleep in tests."""


@dataclass
class ProfileBench:
    """An engine whose articles go to the table of `owner`."""

    bench: Bench
    owner: Any
    source: ProfileSource

    @property
    def clock(self) -> ManualClock:
        return self.bench.clock

    def reader(self) -> ProfileReader:
        """Return a reader as another process would have it."""
        return ProfileReader(self.bench.database, self.bench.clock, self.source)

    async def read(self) -> None:
        reader = self.reader()
        while await reader.tick():
            pass

    async def enqueue(self) -> None:
        """Read all recipients, then create their messages."""
        await self.read()
        engine = self.bench.engine
        scheduler = ArticleScheduler(engine.database, engine.clock, engine.templates)
        while await scheduler.tick():
            pass

    async def write_back(self) -> None:
        for kind in (ProfileWriteBack, ProfileListWriteBack):
            writer = kind(self.bench.database, self.bench.clock, self.source)
            while await writer.tick():
                pass

    async def find(self, run: ArticleRun) -> ArticleRun:
        return await self.bench.engine.article_runs.find(DEFAULT_TENANT, run.run_id)


@asynccontextmanager
async def a_profile_bench(url: str, clock: ManualClock, owner: Any, **settings: Any) -> AsyncIterator[ProfileBench]:
    async with a_bench(url, clock, **owner.settings, **settings) as bench:
        source = make_profiles(bench.engine.settings, bench.database, sleep=no_wait)
        assert source is not None
        yield ProfileBench(bench, owner, source)
        await source.table.close()


def small_pages(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(rest, "PAGE_ROWS", rows)
    monkeypatch.setattr(postgresql, "PAGE_ROWS", rows)
