"""What people read if a database is full, locked or read-only, or if its user lacks a right."""

import asyncio
import os
import shutil
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError

from mailwright.domain.errors import DatabaseBlocked, DatabaseDamaged, DatabaseNotReady, NotDurable
from mailwright.storage import database as storage
from mailwright.storage.database import Database
from mailwright.storage.migrate import upgrade
from mailwright.storage.outages import explain_outage
from mailwright.storage.schema_state import load_schema
from tests.engines import PostgresServer

WEAK = "lacks_rights"
ROLE = f"""
DO $$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{WEAK}') THEN CREATE ROLE {WEAK} LOGIN PASSWORD 'x'; END IF;
END $$
"""


async def write(database: Database) -> None:
    async with database.write() as tx:
        await tx.execute(text("CREATE TABLE written (a int)"))


async def fill(database: Database) -> None:
    async with database.write() as tx:
        await tx.execute(text("PRAGMA max_page_count = 3"))
        for number in range(9):
            await tx.execute(text(f"CREATE TABLE more_{number} (a int)"))


async def test_full_disk_is_named(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/full.db")
    await write(database)
    with pytest.raises(DatabaseBlocked, match=r"The disk of the database .*full\.db is full\. Nothing was stored\."):
        await fill(database)
    await database.close()


async def test_foreign_lock_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "SQLITE_PRAGMAS", ("busy_timeout = 1", *storage.SQLITE_PRAGMAS[1:]))
    file = tmp_path / "locked.db"
    database = Database(f"sqlite:///{file}")
    await write(database)
    shell = await asyncio.to_thread(sqlite3.connect, file, isolation_level=None, check_same_thread=False)
    shell.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseBlocked, match=r"Another process keeps the database locked\.db locked"):
        async with database.write() as tx:
            await tx.execute(text("INSERT INTO written VALUES (1)"))
    shell.execute("ROLLBACK")
    async with database.write() as tx:
        await tx.execute(text("INSERT INTO written VALUES (1)"))
    shell.close()
    await database.close()


async def test_user_without_rights_is_named(postgres_server: PostgresServer) -> None:
    url = await postgres_server.create()
    owner = Database(url)
    async with owner.write() as tx:
        await tx.execute(text(ROLE))
    await owner.close()
    weak = Database(make_url(url).set(username=WEAK, password="x").render_as_string(hide_password=False))
    try:
        for ask in (load_schema, upgrade):
            with pytest.raises(DatabaseNotReady, match=rf"user {WEAK} lacks a right .permission denied for table"):
                await ask(weak)
        with pytest.raises(DatabaseNotReady, match=r"lacks a right .permission denied for schema public"):
            await write(weak)
    finally:
        await weak.close()
        await postgres_server.drop(url)


async def say_twice(database: Database, words: str) -> None:
    async with database.write() as tx:
        await tx.execute(text("CREATE TEMPORARY TABLE said (words TEXT PRIMARY KEY)"))
        await tx.execute(text("INSERT INTO said VALUES (:words), (:words)").bindparams(words=words))


async def test_value_that_reads_like_a_reason_is_none(database: Database) -> None:
    with pytest.raises(IntegrityError):
        await say_twice(database, "550 permission denied for this sender")


async def test_server_without_writes_is_named(postgres_server: PostgresServer) -> None:
    url = await postgres_server.create()
    options = {"options": "-cdefault_transaction_read_only=on"}
    database = Database(make_url(url).update_query_dict(options).render_as_string(hide_password=False))
    try:
        with pytest.raises(DatabaseBlocked, match="The PostgreSQL server accepts no writes"):
            await write(database)
    finally:
        await database.close()
        await postgres_server.drop(url)


@pytest.mark.parametrize(
    ("reason", "kind", "words"),
    [
        ('could not extend file "base/1/2": No space left on device', DatabaseBlocked, "is full"),
        ("could not write init file", DatabaseBlocked, "is full"),
        ("database disk image is malformed", DatabaseDamaged, "is damaged"),
        ("", NotDurable, "no answer in time: the server is overloaded, or another session holds a lock"),
        ("connection refused", NotDurable, "Not stored (connection refused). Retry shortly."),
    ],
)
def test_reason_follows_from_the_error(reason: str, kind: type[NotDurable], words: str) -> None:
    error = OSError(reason) if reason else TimeoutError()
    found = explain_outage("Not stored", make_url("postgresql://127.0.0.1/mail"), error)
    assert type(found) is kind
    assert words in str(found)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"username": "nobody"}, 'role "nobody" does not exist'),
        ({"database": "nowhere"}, "Create the database nowhere, or correct its name in the address."),
    ],
)
async def test_refused_address_is_not_retried(
    postgres_server: PostgresServer, changes: dict[str, str], words: str
) -> None:
    url = make_url(postgres_server.url("postgres")).set(**changes)
    database = Database(url.render_as_string(hide_password=False))
    with pytest.raises(DatabaseNotReady) as refused:
        await load_schema(database)
    assert words in str(refused.value)
    assert "Retry shortly" not in str(refused.value)
    await database.close()


def test_file_of_another_user_and_a_full_disk_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = make_url(f"sqlite:///{tmp_path}/mailwright.db")
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=0))
    found = explain_outage("Not stored", url, sqlite3.OperationalError("disk I/O error"))
    assert "is full" in str(found)
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    found = explain_outage("Not stored", url, sqlite3.OperationalError("unable to open database file"))
    assert "This user may not write the database" in str(found)
    missing = make_url(f"sqlite:///{tmp_path}/missing/mailwright.db")
    found = explain_outage("Not stored", missing, sqlite3.OperationalError("unable to open database file"))
    assert "does not exist. Create it." in str(found)
