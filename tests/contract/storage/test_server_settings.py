"""Durability settings: those of PostgreSQL that are off, and those that Mailwright sets itself."""

from pathlib import Path

import pytest
from sqlalchemy import text

from mailwright.storage import database as database_
from mailwright.storage.database import SQLITE_PRAGMAS, Database
from mailwright.storage.server_settings import find_unsafe_settings, unsafe_settings
from tests.engines import PostgresServer


@pytest.mark.parametrize("name", ["fsync", "full_page_writes", "synchronous_commit"])
def test_each_durability_setting_that_is_off_is_reported(name: str) -> None:
    settings = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "remote_apply"}
    assert unsafe_settings(settings) == []
    [found] = unsafe_settings({**settings, name: "off"})
    assert (found.name, found.value) == (name, "off")


def test_asynchronous_replication_is_reported() -> None:
    settings = {"synchronous_commit": "on", "synchronous_standby_names": "", "standbys": "0"}
    assert unsafe_settings(settings) == []
    [found] = unsafe_settings({**settings, "standbys": "1"})
    assert found.problem.startswith("the PostgreSQL setting synchronous_standby_names is empty: the standby receives")
    assert unsafe_settings({**settings, "standbys": "1", "synchronous_standby_names": "*"}) == []


def test_commits_that_do_not_wait_for_the_standby_are_reported() -> None:
    [found] = unsafe_settings({"synchronous_commit": "local", "synchronous_standby_names": "*", "standbys": "1"})
    assert (found.name, found.value, found.wanted) == ("synchronous_commit", "local", "on")


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
