"""Durability settings: those of PostgreSQL that are off, and those that Mailwright sets itself."""

from pathlib import Path

import pytest
from sqlalchemy import text

from mailwright.storage import database as database_
from mailwright.storage.database import SQLITE_PRAGMAS, Database
from mailwright.storage.server_settings import find_unsafe_settings, unsafe_settings
from mailwright.storage.standbys import Standbys
from tests.engines import PostgresServer

ON = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}


@pytest.mark.parametrize("name", list(ON))
def test_each_durability_setting_that_is_off_is_reported(name: str) -> None:
    assert unsafe_settings({**ON, "synchronous_commit": "remote_apply"}, Standbys()) == []
    [found] = unsafe_settings({**ON, name: "off"}, Standbys())
    assert (found.name, found.value) == (name, "off")


def test_asynchronous_replication_is_reported() -> None:
    [found] = unsafe_settings(ON, Standbys("", ("one", "two")))
    assert found.problem.startswith("the PostgreSQL setting synchronous_standby_names is empty: the standby receives")
    assert found.advice.startswith("set synchronous_standby_names = 'ANY 1 (*)' in postgresql.conf")
    assert unsafe_settings(ON, Standbys("*", ("one", "two"))) == []


def test_single_standby_is_not_made_synchronous_without_a_second_one() -> None:
    [found] = unsafe_settings(ON, Standbys("", ("one",)))
    assert found.advice.startswith("add a second standby and set")
    assert "nothing is accepted while it is down" in found.advice


def test_only_synchronous_standby_is_reported() -> None:
    [found] = unsafe_settings(ON, Standbys("ANY 1 (*)", ("replica",)))
    assert "nothing is accepted or sent while one of them is down" in found.problem
    assert found.advice.startswith("add another standby")


def test_commits_that_do_not_wait_for_the_standby_are_reported() -> None:
    [found] = unsafe_settings({"synchronous_commit": "local"}, Standbys("*", ("one",)))
    assert (found.name, found.value) == ("synchronous_commit", "local")
    assert found.advice.startswith("set synchronous_commit = on in postgresql.conf")


async def test_own_connections_commit_synchronously(postgres_server: PostgresServer) -> None:
    """The servers of the tests run without fsync; `synchronous_commit` is a setting of our connections."""
    url = await postgres_server.create()
    database = Database(url)
    assert [each.name for each in await find_unsafe_settings(database)] == ["fsync", "full_page_writes"]
    await database.close()
    await postgres_server.drop(url)


async def test_commits_of_sqlite_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The databases of the other tests do not."""
    monkeypatch.setattr(database_, "SQLITE_PRAGMAS", SQLITE_PRAGMAS)
    database = Database(f"sqlite:///{tmp_path / 'mailwright.db'}")
    async with database.write() as tx:
        [full] = await tx.execute(text("PRAGMA synchronous"))
    await database.close()
    assert full.synchronous == 2
