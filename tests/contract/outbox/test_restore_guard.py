"""A database that was restored to an older state sends nothing until a person releases it."""

from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from mailwright.app.restore_checks import forget_missing_file, require_known_file
from mailwright.app.sending import release_sending
from mailwright.domain.clock import DAY, MINUTE
from mailwright.domain.errors import NotDurable, NotPossibleNow
from mailwright.domain.states import Status
from mailwright.outbox.audit_log import list_entries
from mailwright.outbox.restore_guard import DATABASE_ID, SEQUENCE, FileMarker, RestoreGuard, ValkeyMarker
from mailwright.outbox.sending_hold import DueMessages, HoldReason, find_hold
from mailwright.outbox.valkey import valkey_client
from mailwright.storage.database import Database
from mailwright.storage.tables import deliveries, installation
from tests.builders import Bench, a_message, a_newsletter, settings_for
from tests.engines import Valkey
from tests.standins.provider import ScriptedProvider

pytestmark = pytest.mark.promise("restore-held")


def guard_of(bench: Bench, folder: Path) -> RestoreGuard:
    return RestoreGuard(bench.database, bench.clock, [FileMarker(folder, bench.database.url)])


async def stored(bench: Bench, name: str) -> str:
    async with bench.database.read() as tx:
        [row] = await tx.execute(select(installation.c.value).where(installation.c.name == name))
    return str(row.value)


async def put_back(bench: Bench, name: str, value: str) -> None:
    """Give the database an earlier value, as a backup has it."""
    async with bench.database.write() as tx:
        await tx.execute(update(installation).where(installation.c.name == name).values(value=value))


async def statuses(bench: Bench) -> dict[str, int]:
    async with bench.database.read() as tx:
        query = select(deliveries.c.status, func.count().label("rows")).group_by(deliveries.c.status)
        return {row.status: row.rows for row in await tx.execute(query)}


async def restored(bench: Bench, folder: Path) -> None:
    """Use the database, then continue with its earlier state in a new process."""
    first = guard_of(bench, folder)
    assert await first.check() is None
    before = await stored(bench, SEQUENCE)
    assert await first.check() is None
    await put_back(bench, SEQUENCE, before)
    hold = await guard_of(bench, folder).check()
    assert hold is not None
    assert hold.reason is HoldReason.RESTORED


async def test_usual_restarts_hold_nothing(bench: Bench, tmp_path: Path) -> None:
    for _ in range(3):
        guard = guard_of(bench, tmp_path)
        assert await guard.check() is None
        assert await guard.check() is None
    assert await find_hold(bench.database) is None


async def test_restored_database_sends_nothing(bench: Bench, tmp_path: Path) -> None:
    await bench.accept(a_message(), a_newsletter())
    await restored(bench, tmp_path)
    await bench.accept(a_message())  # Accepting continues.
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert provider.messages == []
    assert await statuses(bench) == {"PENDING": 3}
    assert await guard_of(bench, tmp_path).check() is None  # A restart reports nothing new, and the hold stays.
    assert await find_hold(bench.database) is not None


async def test_release_leaves_due_messages_in_doubt(bench: Bench, tmp_path: Path) -> None:
    due = await bench.accept(a_message(), a_newsletter())
    await restored(bench, tmp_path)
    bench.clock.advance(MINUTE)
    later = await bench.accept(a_message())
    doubted, _ = await release_sending(bench.database, bench.clock, actor="ada", due=DueMessages.IN_DOUBT)
    assert doubted == len(due)
    provider = ScriptedProvider()
    await bench.drain(provider)
    bench.clock.advance(MINUTE)
    await bench.drain(provider)
    assert provider.outbox_ids == later
    assert {(await bench.record(each)).summary.status for each in due} == {Status.IN_DOUBT}
    [entry, *_] = await list_entries(bench.database, tenant_id=None, limit=5)
    assert (entry.actor, entry.action) == ("ada", "sending.release")
    bench.clock.advance(DAY)
    await bench.drain(provider)
    assert provider.outbox_ids == later  # Never resent without a person.


async def test_release_can_send_due_messages(bench: Bench, tmp_path: Path) -> None:
    due = await bench.accept(a_message())
    await restored(bench, tmp_path)
    await release_sending(bench.database, bench.clock, actor="ada", due=DueMessages.SEND)
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert provider.outbox_ids == due
    with pytest.raises(NotPossibleNow):
        await release_sending(bench.database, bench.clock, actor="ada", due=DueMessages.SEND)


async def test_running_process_notices_a_restore(bench: Bench) -> None:
    guard = RestoreGuard(bench.database, bench.clock, [])  # Without a marker outside of the database.
    await guard.check()
    before = await stored(bench, SEQUENCE)
    await guard.check()
    await put_back(bench, SEQUENCE, before)
    assert await guard.check() is not None


async def test_other_database_at_the_same_address_is_held(bench: Bench, tmp_path: Path) -> None:
    await guard_of(bench, tmp_path).check()
    await put_back(bench, DATABASE_ID, "another")
    hold = await guard_of(bench, tmp_path).check()
    assert hold is not None
    assert hold.reason is HoldReason.REPLACED


async def test_marker_in_valkey_serves_every_machine(bench: Bench, valkey: Valkey) -> None:
    async with valkey_client(valkey.url) as client:
        marker = ValkeyMarker(client, bench.database.url)
        await RestoreGuard(bench.database, bench.clock, [marker]).check()
        await put_back(bench, SEQUENCE, "0")
        assert await RestoreGuard(bench.database, bench.clock, [marker]).check() is not None


def test_missing_file_of_a_known_database_is_refused(tmp_path: Path) -> None:
    settings = settings_for(f"sqlite:///{tmp_path}/mailwright.db", state=tmp_path / "state")
    database = Database(settings.database_url)
    require_known_file(settings, database)  # No marker exists yet.
    marker = FileMarker(settings.state, database.url)
    marker.file.parent.mkdir()
    marker.file.write_bytes(b'{"database_id": "one", "sequence": 3, "at": 1800000000000}')
    with pytest.raises(NotDurable, match=r"is missing\. Restore it .* `mailwright db upgrade --new`"):
        require_known_file(settings, database)
    forget_missing_file(settings, database)
    require_known_file(settings, database)
