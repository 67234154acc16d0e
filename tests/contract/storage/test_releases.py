"""Databases of all releases are upgraded to the present version: nothing is lost, and what waited is sent."""

from pathlib import Path

import pytest
from sqlalchemy import text

from mailwright import __version__
from mailwright.app.backups import audit_of, load, opened
from mailwright.app.sending import release_sending
from mailwright.domain.clock import HOUR, ManualClock
from mailwright.ops.release_files import find_release, load_defaults
from mailwright.ops.released_settings import current_defaults
from mailwright.outbox.audit import audit
from mailwright.outbox.audit_log import CONSOLE
from mailwright.outbox.sending_hold import DueMessages, find_hold
from mailwright.storage.database import Database
from mailwright.storage.revision import list_names
from mailwright.storage.schema_state import SchemaStatus, load_schema
from tests.builders import a_bench
from tests.campaigns import address_of
from tests.engines import PostgresServer
from tests.releases import CREATED, FOLDER, PEOPLE, RECIPIENTS, WAITING, WAITING_NAME
from tests.sequences import SequenceBench

RELEASES = sorted(FOLDER.glob("*.mwbackup"))


def test_this_version_has_its_database() -> None:
    assert FOLDER / f"{__version__}.mwbackup" in RELEASES


def test_settings_of_each_release_are_kept() -> None:
    assert {find_release(each.stem) for each in RELEASES} == {each.stem for each in RELEASES}


def test_kinds_of_defaults_are_those_of_each_release() -> None:
    """A default that is written in another form would seem to have changed."""
    present = current_defaults()
    for each in RELEASES:
        before = load_defaults(each.stem)
        kinds = {(type(before[name]), type(present[name])) for name in before.keys() & present.keys()}
        assert {(old, new) for old, new in kinds if old is not new} <= {(type(None), new) for _, new in kinds}


@pytest.mark.parametrize("file", RELEASES, ids=lambda file: file.stem)
@pytest.mark.parametrize("target", ["sqlite", "postgresql"])
async def test_database_of_a_release_is_upgraded(
    file: Path, target: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server: PostgresServer | None = None if target == "sqlite" else request.getfixturevalue("postgres_server")
    url = f"sqlite:///{tmp_path}/a.db" if server is None else await server.create_empty()
    database = Database(url)
    try:
        with opened(file, None) as reader:
            revision = reader.header.revision
            stored = {part.table: len(part.rows) for part in reader.tables()}
        assert revision in list_names()
        await load(database, file, None)  # Creates the schema of the release, and upgrades it.
        assert (await load_schema(database)).status is SchemaStatus.CURRENT
        async with database.read() as tx:
            for table, rows in stored.items():
                [(found,)] = await tx.execute(text(f"SELECT count(*) FROM {table}"))
                assert found >= rows, table
        before = await audit(database)
        assert before == await audit_of(file, None)
        assert before.ok
    finally:
        await database.close()
    await _continue(url)
    if server is not None:
        await server.drop_empty(url)


async def _continue(url: str) -> None:
    """Send everything that waited in the database, and the next emails of its sequence."""
    clock = ManualClock(CREATED + 2 * HOUR)
    async with a_bench(url, clock) as bench:
        if await find_hold(bench.database) is not None:
            await release_sending(bench.database, clock, actor=CONSOLE, due=DueMessages.SEND)
        sequences = SequenceBench(bench)
        await (await bench.worker(sequences.provider)).run(drain=True)
        await sequences.run_for(3 * HOUR, every=HOUR)
        sent = [recipient for message in sequences.provider.messages for recipient in message.recipients]
        waiting = [f"{WAITING_NAME}{number}@example.com" for number in range(WAITING)]
        campaign = [address_of(number) for number in range(RECIPIENTS)]
        assert sorted(sent) == sorted([*waiting, *campaign, *PEOPLE])
        assert (await audit(bench.database)).ok
