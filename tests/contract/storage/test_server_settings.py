"""Durability settings of PostgreSQL that are off."""

import pytest

from mailwright.storage.database import Database
from mailwright.storage.server_settings import find_unsafe_settings, unsafe_settings
from tests.engines import PostgresServer


@pytest.mark.parametrize("name", ["fsync", "full_page_writes", "synchronous_commit"])
def test_each_durability_setting_that_is_off_is_reported(name: str) -> None:
    settings = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "remote_apply"}
    assert unsafe_settings(settings) == {}
    assert list(unsafe_settings({**settings, name: "off"})) == [name]


async def test_own_connections_commit_synchronously(postgres_server: PostgresServer) -> None:
    """The servers of the tests run without fsync; `synchronous_commit` is a setting of our connections."""
    url = await postgres_server.create()
    database = Database(url)
    assert list(await find_unsafe_settings(database)) == ["fsync", "full_page_writes"]
    await database.close()
    await postgres_server.drop(url)
