"""A database that was restored to an older state sends nothing until a person releases it."""

import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import delete, func, select, update

from mailwright.app.restore_checks import forget_missing_file, require_known_file
from mailwright.app.sending import release_sending
from mailwright.app.wiring import open_engine
from mailwright.domain.clock import DAY, MINUTE, ManualClock
from mailwright.domain.errors import NotDurable, NotPossibleNow
from mailwright.domain.states import Status
from mailwright.ops.settings import Settings
from mailwright.outbox.audit_log import list_entries
from mailwright.outbox.restore_guard import (
    ADVANCED_AT,
    DATABASE_ID,
    JOIN_SECONDS,
    SEQUENCE,
    UNUSED_AFTER,
    FileMarker,
    Mark,
    RestoreGuard,
    ValkeyMarker,
)
from mailwright.outbox.sending_hold import DueMessages, HoldReason, find_hold
from mailwright.outbox.valkey import valkey_client
from mailwright.storage.database import Database
from mailwright.storage.tables import deliveries, installation
from tests.builders import Bench, a_message, a_newsletter, settings_for
from tests.engines import Valkey
from tests.standins.provider import ScriptedProvider

pytestmark = pytest.mark.promise("restore-held")


@dataclass
class Waiting:
    """Lets time pass for a process that waits. Meanwhile another process may run."""

    meanwhile: Callable[[], Awaitable[object]] | None = None
    naps: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        if self.meanwhile is not None:
            await self.meanwhile()


def guard_of(bench: Bench, folder: Path, waiting: Waiting | None = None) -> RestoreGuard:
    sleep = (waiting or Waiting()).sleep
    return RestoreGuard(bench.database, bench.clock, [FileMarker(folder, bench.database.url)], sleep)


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


async def forget(bench: Bench, *names: str) -> None:
    """Remove values of the database, as in a copy from before they existed."""
    async with bench.database.write() as tx:
        await tx.execute(delete(installation).where(installation.c.name.in_(names)))


@pytest.mark.parametrize("name", [SEQUENCE, DATABASE_ID])
async def test_copy_from_before_its_marker_is_held(bench: Bench, tmp_path: Path, name: str) -> None:
    assert await guard_of(bench, tmp_path).check() is None
    await bench.accept(a_message())
    await forget(bench, name)
    assert await guard_of(bench, tmp_path).check() is not None
    assert await find_hold(bench.database) is not None


@pytest.mark.parametrize("names", [(SEQUENCE, ADVANCED_AT), (SEQUENCE, ADVANCED_AT, DATABASE_ID), (ADVANCED_AT,)])
async def test_copy_of_any_version_without_a_marker_is_held(
    bench: Bench, tmp_path: Path, names: tuple[str, ...]
) -> None:
    await guard_of(bench, tmp_path / "old").check()
    await bench.accept(a_message())
    await bench.drain(ScriptedProvider())
    await bench.accept(a_message())
    await forget(bench, *names)
    hold = await guard_of(bench, tmp_path / "new").check()
    assert hold is not None
    assert hold.reason is HoldReason.UNMARKED
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert provider.messages == []


async def test_copy_on_a_machine_with_an_old_marker_is_held(bench: Bench, tmp_path: Path) -> None:
    running = guard_of(bench, tmp_path / "running")
    await running.check()
    await guard_of(bench, tmp_path / "retired").check()
    await bench.accept(a_message())
    bench.clock.advance(DAY)
    await running.check()
    hold = await guard_of(bench, tmp_path / "retired").check()
    assert hold is not None
    assert hold.reason is HoldReason.UNMARKED
    assert "an older marker, of 15 Jan 2027, 08:00 UTC," in hold.detail
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert provider.messages == []
    await release_sending(bench.database, bench.clock, actor="ada", due=DueMessages.SEND)
    assert await guard_of(bench, tmp_path / "retired").check() is None


async def test_machine_with_an_old_marker_joins_a_running_installation(bench: Bench, tmp_path: Path) -> None:
    await guard_of(bench, tmp_path / "joining").check()
    await bench.accept(a_message())
    running = guard_of(bench, tmp_path / "running", Waiting(guard_of(bench, tmp_path / "joining").check))
    await running.check()
    bench.clock.advance(DAY)
    await running.check()
    waiting = Waiting(running.check)
    assert await guard_of(bench, tmp_path / "joining", waiting).check() is None
    assert len(waiting.naps) == 1


async def test_running_process_does_not_wait_for_others(bench: Bench, tmp_path: Path) -> None:
    paused = guard_of(bench, tmp_path / "paused")  # for example a machine that slept
    await paused.check()
    await bench.accept(a_message())
    running = guard_of(bench, tmp_path / "running", Waiting(paused.check))
    await running.check()
    bench.clock.advance(DAY)
    await running.check()
    assert await paused.check() is None


async def test_marker_just_before_a_crash_is_recent(bench: Bench, tmp_path: Path) -> None:
    await guard_of(bench, tmp_path).check()
    await bench.accept(a_message())
    await put_back(bench, SEQUENCE, "9")  # The process was killed before it saved the marker.
    waiting = Waiting()
    assert await guard_of(bench, tmp_path, waiting).check() is None
    assert waiting.naps == []


async def test_sqlite_file_without_its_log_is_held(tmp_path: Path) -> None:
    settings = settings_for(f"sqlite:///{tmp_path}/mailwright.db", state=tmp_path / "state")
    async with open_engine(settings, ManualClock()) as opened:
        guard = RestoreGuard(opened.database, opened.clock, [FileMarker(settings.state, opened.database.url)])
        await guard.check()
        await opened.acceptor.accept([a_message()])
        for suffix in ("", "-wal"):
            shutil.copy(tmp_path / f"mailwright.db{suffix}", tmp_path / f"copy.db{suffix}")
        shutil.copy(tmp_path / "mailwright.db", tmp_path / "bare.db")
        await guard.check()
    for name in "copy", "bare":
        copied = settings_for(f"sqlite:///{tmp_path}/{name}.db", state=tmp_path / "state")
        shutil.copy(FileMarker(settings.state, opened.database.url).file, marker_of(copied))
        async with open_engine(copied, ManualClock()) as opened_copy:
            markers = [FileMarker(copied.state, opened_copy.database.url)]
            hold = await RestoreGuard(opened_copy.database, opened_copy.clock, markers).check()
        assert hold is not None, name


def marker_of(settings: Settings) -> Path:
    return FileMarker(settings.state, Database(settings.database_url).url).file


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
    await guard_of(bench, tmp_path).check()
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
    await guard_of(bench, tmp_path).check()
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
    await guard_of(bench, tmp_path).check()
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


async def test_copy_without_a_marker_sends_nothing(bench: Bench, tmp_path: Path) -> None:
    await guard_of(bench, tmp_path / "old").check()
    await bench.accept(a_message(), a_newsletter())
    waiting = Waiting()
    hold = await guard_of(bench, tmp_path / "new", waiting).check()
    assert hold is not None
    assert hold.reason is HoldReason.UNMARKED
    assert sum(waiting.naps) == JOIN_SECONDS
    assert "It was last used at 15 Jan 2027, 08:00 UTC." in hold.detail
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert provider.messages == []
    # The next start has a marker, and the hold stays.
    assert await guard_of(bench, tmp_path / "new").check() is None
    assert await find_hold(bench.database) == hold
    await release_sending(bench.database, bench.clock, actor="ada", due=DueMessages.SEND)
    # After the release neither machine holds sending again.
    assert await guard_of(bench, tmp_path / "new").check() is None
    assert await guard_of(bench, tmp_path / "old").check() is None
    await bench.drain(provider)
    assert len(provider.messages) == 2


async def test_unused_copy_is_held_without_waiting(bench: Bench, tmp_path: Path) -> None:
    await guard_of(bench, tmp_path / "old").check()
    await bench.accept(a_message())
    bench.clock.advance(UNUSED_AFTER + 1)
    waiting = Waiting()
    hold = await guard_of(bench, tmp_path / "new", waiting).check()
    assert hold is not None
    assert waiting.naps == []


async def test_machine_joins_a_running_installation(bench: Bench, tmp_path: Path) -> None:
    running = guard_of(bench, tmp_path / "running")
    await running.check()
    await bench.accept(a_message())
    waiting = Waiting(running.check)
    assert await guard_of(bench, tmp_path / "joining", waiting).check() is None
    assert len(waiting.naps) == 1
    assert await find_hold(bench.database) is None
    assert await guard_of(bench, tmp_path / "joining").check() is None  # It has a marker now.


async def test_two_new_machines_do_not_vouch_for_each_other(bench: Bench, tmp_path: Path) -> None:
    await guard_of(bench, tmp_path / "old").check()
    await bench.accept(a_message())
    second = guard_of(bench, tmp_path / "second")
    await guard_of(bench, tmp_path / "first", Waiting(second.check)).check()
    assert await find_hold(bench.database) is not None


@dataclass
class LateMarker:
    """Reads the marker just before another process saves it, which then goes on."""

    marker: FileMarker
    meanwhile: Callable[[], Awaitable[None]] | None

    async def load(self, database_id: str) -> Mark | None:
        found = await self.marker.load(database_id)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return found

    async def save(self, mark: Mark) -> None:
        await self.marker.save(mark)


@pytest.mark.parametrize("sends", [True, False])
async def test_processes_that_start_together_on_a_new_database_hold_nothing(
    bench: Bench, tmp_path: Path, sends: bool
) -> None:
    await bench.accept(a_message())  # By an application, before the first worker.

    async def start_first() -> None:
        assert await guard_of(bench, tmp_path).check() is None
        if sends:
            await bench.drain(ScriptedProvider())
        await bench.accept(a_message())

    waiting = Waiting()
    marker = LateMarker(FileMarker(tmp_path, bench.database.url), start_first)
    assert await RestoreGuard(bench.database, bench.clock, [marker], waiting.sleep).check() is None
    assert waiting.naps == []
    assert await find_hold(bench.database) is None


async def test_marker_that_is_saved_during_the_wait_ends_it(bench: Bench, tmp_path: Path) -> None:
    """The first process stores the number, saves its marker later and ends soon."""
    await bench.accept(a_message())
    await RestoreGuard(bench.database, bench.clock, []).check()

    async def save_marker() -> None:
        mark = Mark(await stored(bench, DATABASE_ID), int(await stored(bench, SEQUENCE)), bench.clock.now())
        await FileMarker(tmp_path, bench.database.url).save(mark)

    waiting = Waiting(save_marker)
    assert await guard_of(bench, tmp_path, waiting).check() is None
    assert len(waiting.naps) == 1
    assert await find_hold(bench.database) is None


async def test_new_database_is_not_held(bench: Bench, tmp_path: Path) -> None:
    assert await guard_of(bench, tmp_path / "upgrade").check() is None  # Another machine created the tables.
    waiting = Waiting()
    assert await guard_of(bench, tmp_path / "serve", waiting).check() is None
    assert waiting.naps == []


async def test_marker_is_found_under_another_address(bench: Bench, tmp_path: Path) -> None:
    await guard_of(bench, tmp_path).check()
    await bench.accept(a_message())
    moved = FileMarker(tmp_path, bench.database.url.set(database="elsewhere"))
    waiting = Waiting()
    assert await RestoreGuard(bench.database, bench.clock, [moved], waiting.sleep).check() is None
    assert waiting.naps == []


async def test_copy_beside_its_original_is_held(bench: Bench, tmp_path: Path) -> None:
    original = guard_of(bench, tmp_path)
    await original.check()
    before = await stored(bench, SEQUENCE)
    await original.check()
    await put_back(bench, SEQUENCE, before)
    copy = FileMarker(tmp_path, bench.database.url.set(database="copy"))
    hold = await RestoreGuard(bench.database, bench.clock, [copy]).check()
    assert hold is not None
    assert hold.reason is HoldReason.RESTORED


async def test_damaged_marker_counts_as_missing(bench: Bench, tmp_path: Path) -> None:
    await guard_of(bench, tmp_path).check()
    await bench.accept(a_message())
    FileMarker(tmp_path, bench.database.url).file.write_bytes(b"")
    hold = await guard_of(bench, tmp_path).check()
    assert hold is not None
    assert hold.reason is HoldReason.UNMARKED


async def test_marker_in_valkey_lets_a_new_machine_send(bench: Bench, valkey: Valkey, tmp_path: Path) -> None:
    async with valkey_client(valkey.url) as client:
        shared = ValkeyMarker(client, bench.database.url)
        await RestoreGuard(bench.database, bench.clock, [shared]).check()
        await bench.accept(a_message())
        renamed = ValkeyMarker(client, bench.database.url.set(database="other-name"))
        for marker in shared, renamed:
            waiting = Waiting()
            markers = [FileMarker(tmp_path / "new", bench.database.url), marker]
            assert await RestoreGuard(bench.database, bench.clock, markers, waiting.sleep).check() is None
            assert waiting.naps == []


async def test_opening_a_new_file_marks_it(tmp_path: Path) -> None:
    settings = settings_for(f"sqlite:///{tmp_path}/mailwright.db", state=tmp_path / "state")
    async with open_engine(settings, ManualClock()) as opened:
        assert FileMarker(settings.state, opened.database.url).read() is not None
        await opened.acceptor.accept([a_message()])
    elsewhere = settings.model_copy(update={"state": tmp_path / "new-machine"})
    async with open_engine(elsewhere, ManualClock()) as opened:
        waiting = Waiting()
        markers = [FileMarker(elsewhere.state, opened.database.url)]
        hold = await RestoreGuard(opened.database, opened.clock, markers, waiting.sleep).check()
        assert hold is not None
        assert hold.reason is HoldReason.UNMARKED


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
