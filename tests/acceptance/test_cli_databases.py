"""What each everyday command says about a database that it cannot use, and that it changes nothing."""

import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import asyncpg
import pytest
from sqlalchemy.engine import make_url

from mailwright.storage.revision import newest_revision
from tests.acceptance.commands import Commands, Ended
from tests.engines import PostgresServer
from tests.ports import free_port

COMMANDS: Final = (
    ("check",),
    ("health",),
    ("db", "status"),
    ("db", "upgrade"),
    ("upgrade", "--check"),
    ("campaign", "list"),
    ("worker", "--drain"),
    ("serve",),
)
NEWER: Final = "INSERT INTO schema_revisions VALUES ('9001', '9.0', '9001', 1, 1, 1, NULL)"
# Its first step cannot be repeated; those of later ones might.
CUT_OFF: Final = "0005"
UNFINISHED: Final = (
    f"DELETE FROM schema_revisions WHERE revision > '{CUT_OFF}';"
    f"UPDATE schema_revisions SET finished_at = NULL, step = 0 WHERE revision = '{CUT_OFF}'"
)
FITS_NOT: Final = f"The migration to schema {CUT_OFF} does not fit the tables of the database"


@pytest.fixture
def nowhere(tmp_path: Path) -> Commands:
    return Commands(tmp_path, {"MAILWRIGHT_PORT": str(free_port())})


def run_sql(file: Path, statement: str) -> None:
    connection = sqlite3.connect(file)
    connection.executescript(statement)
    connection.close()


def make_newer(file: Path) -> None:
    run_sql(file, NEWER)


def make_unfinished(file: Path) -> None:
    run_sql(file, UNFINISHED)


def make_foreign(file: Path) -> None:
    file.unlink()
    run_sql(file, "CREATE TABLE wp_posts (title TEXT)")


def make_damaged(file: Path) -> None:
    file.write_text("This is no database.\n" * 200)


@contextmanager
def locked(file: Path) -> Iterator[None]:
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("BEGIN EXCLUSIVE")
    yield
    connection.close()


async def run_all(commands: Commands) -> AsyncIterator[tuple[tuple[str, ...], Ended]]:
    for arguments in COMMANDS:
        yield arguments, await commands.run(*arguments, COLUMNS="500")


@pytest.mark.parametrize(
    ("change", "sentences", "code"),
    [
        (make_newer, ("a newer version upgraded it. Install that version or a later one.",), 4),
        (make_foreign, ("The database belongs to another program (table wp_posts).",), 3),
        (make_damaged, ("The database mailwright.db is damaged (file is not a database).",), 3),
        (make_unfinished, (f"to schema {CUT_OFF} is unfinished", FITS_NOT, "Migration "), 3),
    ],
)
async def test_unusable_file_is_described_and_not_changed(
    nowhere: Commands, empty_sqlite: bytes, change: Callable[[Path], None], sentences: tuple[str, ...], code: int
) -> None:
    file = nowhere.folder / "mailwright.db"
    file.write_bytes(empty_sqlite)
    change(file)
    before = file.read_bytes()
    async for arguments, ended in run_all(nowhere):
        assert ended.code in (1, code), (arguments, ended)
        said = ended.out + ended.err
        assert any(each in said for each in sentences), (arguments, ended)
        assert "Traceback" not in said
        assert "Retry shortly" not in said
        assert "database is running" not in said
        if change is not make_unfinished:  # A migration that is rolled back counts in the header of the file.
            assert file.read_bytes() == before, arguments


async def test_lock_of_another_program_is_named(nowhere: Commands, empty_sqlite: bytes) -> None:
    file = nowhere.folder / "mailwright.db"
    file.write_bytes(empty_sqlite)
    with locked(file):
        for arguments in (("health",), ("db", "upgrade"), ("upgrade", "--check"), ("serve",)):
            ended = await nowhere.run(*arguments)
            assert (ended.code, "keeps the database mailwright.db locked" in ended.err) == (3, True), ended


async def test_readers_do_not_wait_for_a_writer_of_another_program(nowhere: Commands, empty_sqlite: bytes) -> None:
    file = nowhere.folder / "mailwright.db"
    file.write_bytes(empty_sqlite)
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    for arguments in (("health",), ("db", "upgrade"), ("upgrade", "--check"), ("campaign", "list")):
        await nowhere.ok(*arguments)
    writer.close()


async def test_folder_in_place_of_the_file_is_named(nowhere: Commands) -> None:
    (nowhere.folder / "mailwright.db").mkdir()
    async for arguments, ended in run_all(nowhere):
        assert ended.code == (1 if arguments == ("check",) else 3), ended
        assert "The database mailwright.db is a folder." in ended.out + ended.err


async def test_check_of_an_upgrade_needs_no_file(nowhere: Commands) -> None:
    shown = await nowhere.run("upgrade", "--check")
    assert (shown.code, shown.err) == (1, "")
    assert shown.out == "There is no database yet: `mailwright db upgrade` creates it.\n"
    found = (await nowhere.run("upgrade", "--check", "--json")).json
    assert (found["isMissing"], found["current"], found["problem"]) == (True, None, None)
    assert list(nowhere.folder.iterdir()) == []


async def test_upgrade_says_what_it_created(nowhere: Commands) -> None:
    file = nowhere.folder / "mailwright.db"
    made = await nowhere.ok("db", "upgrade")
    assert made.out == f"Database sqlite:///mailwright.db created, with schema {newest_revision()}.\n"
    file.unlink()
    missing = json.loads((await nowhere.run("upgrade", "--check", "--json")).out)
    assert "is missing. Restore it from a backup" in missing["problem"]
    refused = await nowhere.run("db", "upgrade")
    assert (refused.code, "is missing. Restore it from a backup" in refused.err) == (3, True)
    file.touch()
    filled = await nowhere.ok("db", "upgrade", COLUMNS="200")
    assert filled.out.startswith("Tables created in the empty database sqlite:///mailwright.db, with schema")


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    for each in statements:
        await connection.execute(each)
    await connection.close()


@pytest.mark.parametrize(
    ("statement", "sentences", "code"),
    [
        (NEWER, ("a newer version upgraded it. Install that version or a later one.",), 4),
        (UNFINISHED, (f"to schema {CUT_OFF} is unfinished", FITS_NOT, "Migration "), 3),
        ("ALTER TABLE campaigns DROP COLUMN name CASCADE", ("Something else than Mailwright changed them.",), 3),
    ],
)
async def test_unusable_schema_of_postgresql_is_described(
    nowhere: Commands, postgres_server: PostgresServer, statement: str, sentences: tuple[str, ...], code: int
) -> None:
    url = await postgres_server.create()
    await execute(url, statement)
    commands = Commands(nowhere.folder, {**nowhere.settings, "MAILWRIGHT_DATABASE_URL": url})
    async for arguments, ended in run_all(commands):
        assert ended.code in (1, code), (arguments, ended)
        said = ended.out + ended.err
        assert any(each in said for each in sentences), (arguments, ended)
        assert "Retry shortly" not in said


async def test_database_of_another_program_on_postgresql_is_named(
    nowhere: Commands, postgres_server: PostgresServer
) -> None:
    url = await postgres_server.create_empty()
    await execute(url, "CREATE TABLE messages (title TEXT)")
    commands = Commands(nowhere.folder, {**nowhere.settings, "MAILWRIGHT_DATABASE_URL": url})
    async for arguments, ended in run_all(commands):
        assert ended.code in (1, 3), (arguments, ended)
        assert "The database belongs to another program (table messages)." in ended.out + ended.err
    await postgres_server.drop_empty(url)


async def test_server_without_writes_is_named_by_each_command(
    nowhere: Commands, postgres_server: PostgresServer
) -> None:
    url = await postgres_server.create_empty()
    refusing = make_url(url).update_query_dict({"options": "-cdefault_transaction_read_only=on"})
    address = refusing.render_as_string(hide_password=False)
    commands = Commands(nowhere.folder, {**nowhere.settings, "MAILWRIGHT_DATABASE_URL": address})
    ended = await commands.run("db", "upgrade")
    assert (ended.code, "The PostgreSQL server accepts no writes" in ended.err) == (3, True), ended
    assert "database is running" not in ended.err
    made = await Commands(nowhere.folder, {"MAILWRIGHT_DATABASE_URL": url}).ok("db", "upgrade", COLUMNS="300")
    assert made.out.startswith("Tables created in the empty database postgresql://")
    shown = await commands.run("check", COLUMNS="400")
    assert (shown.code, "accepts no writes" in shown.out) == (1, True), shown
    assert "start it, or correct" not in shown.out
    await postgres_server.drop_empty(url)
