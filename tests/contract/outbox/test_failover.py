"""A server that took over without the latest commits is compared with what was sent, on both engines where possible."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select, text, update

from mailwright.app.wiring import open_engine
from mailwright.checks.health import check_health
from mailwright.domain.clock import DAY, MINUTE, SECOND, ManualClock
from mailwright.domain.message import Claimed, NewMessage
from mailwright.domain.states import EventType, Status
from mailwright.outbox import failover as failover_
from mailwright.outbox.attempt_recorder import AttemptRecorder, open_recorder, read_records
from mailwright.outbox.audit import audit
from mailwright.outbox.audit_log import list_entries
from mailwright.outbox.failover import (
    RESPONSE_GRACE,
    WAIT_FOR_RECORDS,
    Failover,
    FailoverGuard,
    Found,
    compare,
    load_failover,
)
from mailwright.outbox.installation_values import store_value
from mailwright.outbox.quarantine import count_quarantined, find_quarantine
from mailwright.outbox.restore_guard import ADVANCED_AT, FileMarker, RestoreGuard
from mailwright.outbox.sending_hold import COMMITS_LOST, DueMessages, HoldReason, find_hold, release_hold
from mailwright.storage.database import Database
from mailwright.storage.server_state import find_history
from mailwright.storage.tables import deliveries, events, messages
from tests.builders import (
    FAULT,
    LOCK_TTL,
    SENT,
    Attempt,
    Bench,
    a_message,
    a_newsletter,
    a_result,
    a_settler,
    an_acceptor,
    an_in_doubt_handler,
    attempt_steps,
    claims_of,
    deliveries_of,
    record_of,
    settings_for,
    status_of,
    statuses,
    steps,
    the_event,
)
from tests.engines import PostgresServer
from tests.standins.provider import ScriptedProvider

pytestmark = pytest.mark.promise("failover-compared")

on_postgresql = pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
E = EventType
PROVIDER = "scripted"


def a_recorder(folder: Path) -> AttemptRecorder:
    recorder = open_recorder(folder, 100)
    assert recorder is not None
    return recorder


@dataclass
class Sends:
    """A worker that keeps an attempt file, and a database that loses what it wrote."""

    database: Database
    clock: ManualClock
    recorder: AttemptRecorder

    async def begin(self, *accepted: NewMessage) -> list[Claimed]:
        """Accept and claim these messages, which the database keeps, and begin their attempts, which it loses."""
        await an_acceptor(self.database, self.clock).accept(accepted)
        claimed = await claims_of(self.database, self.clock).claim(len(accepted))
        self.kept = await deliveries_of(self.database)
        attempts = [Attempt(each, PROVIDER) for each in claimed]
        self.recorder.begin(attempts, self.clock.now())
        self.clock.advance(1)
        await a_settler(self.database, self.clock).exchange([], attempts)
        return claimed

    async def settle(self, claimed: Collection[Claimed], result: Any = SENT) -> None:
        outcomes = [a_result(each, result, self.clock.now()) for each in claimed]
        self.recorder.settle(outcomes)
        await a_settler(self.database, self.clock).exchange(outcomes, [])

    async def lose(self) -> None:
        """Restore the rows as they were before the attempts."""
        async with self.database.write() as tx:
            await tx.execute(delete(events))
            for row in self.kept:
                kept = update(deliveries).where(deliveries.c.message_key == row.message_key)
                await tx.execute(kept.values(**row._asdict()))

    async def compare(self, folder: Path) -> Found:
        now = self.clock.now()
        async with self.database.write() as tx:
            return await compare(tx, read_records(folder), now, now)


@pytest.fixture
def sends(database: Database, clock: ManualClock, tmp_path: Path) -> Sends:
    return Sends(database, clock, a_recorder(tmp_path))


async def test_nothing_lost_changes_nothing(sends: Sends, tmp_path: Path) -> None:
    begun = await sends.begin(a_message(), a_message())
    await sends.settle(begun[:1])
    before = await deliveries_of(sends.database)
    assert await sends.compare(tmp_path) == Found()
    assert await deliveries_of(sends.database) == before


async def test_sent_message_is_marked_as_sent_again(sends: Sends, tmp_path: Path) -> None:
    [claimed] = await sends.begin(a_newsletter())
    await sends.settle([claimed])
    await sends.lose()
    assert (await sends.compare(tmp_path)).restored == 1
    record = await record_of(sends.database, claimed.outbox_id)
    assert (record.summary.status, record.summary.attempts) == (Status.SENT, 1)
    assert steps(record) == attempt_steps(E.SENT)
    assert {event.metadata["attempt"] for event in record.events} == {1}
    assert the_event(record, E.SENT).metadata["settledBy"] == "attempt_records"
    assert (await audit(sends.database)).ok
    assert (await sends.compare(tmp_path)).restored == 0


async def test_lost_result_of_a_known_attempt_is_restored(sends: Sends, tmp_path: Path) -> None:
    [claimed] = await sends.begin(a_message())
    sends.kept = await deliveries_of(sends.database)
    await sends.settle([claimed])
    await sends.lose()
    sends.clock.advance(LOCK_TTL)
    await an_in_doubt_handler(sends.database, sends.clock).mark_lost_attempts()
    assert (await sends.compare(tmp_path)).restored == 1
    record = await record_of(sends.database, claimed.outbox_id)
    assert record.summary.status == Status.SENT
    assert steps(record) == [*attempt_steps(E.IN_DOUBT), E.SENT]


async def test_attempt_without_a_response_is_in_doubt(sends: Sends, tmp_path: Path) -> None:
    single, bulk = await sends.begin(a_message(), a_newsletter())
    await sends.lose()
    assert (await sends.compare(tmp_path)).doubted == 2
    record = await record_of(sends.database, bulk.outbox_id)
    assert (record.summary.status, record.summary.error_code) == (Status.IN_DOUBT, COMMITS_LOST)
    assert steps(record) == attempt_steps(E.IN_DOUBT)
    assert await count_quarantined(sends.database) == 2
    assert await claims_of(sends.database, sends.clock).claim(2) == []
    sends.clock.advance(RESPONSE_GRACE)
    doubts = an_in_doubt_handler(sends.database, sends.clock)
    await doubts.decide_due()
    assert await status_of(sends.database, bulk.outbox_id) == Status.IN_DOUBT
    [again] = await claims_of(sends.database, sends.clock).claim(2)
    assert (again.outbox_id, again.resends, again.only_provider) == (single.outbox_id, 1, PROVIDER)


async def test_late_response_settles_the_doubt(sends: Sends, tmp_path: Path) -> None:
    [claimed] = await sends.begin(a_newsletter())
    await sends.lose()
    await sends.compare(tmp_path)
    await sends.settle([claimed])
    assert await status_of(sends.database, claimed.outbox_id) == Status.SENT


async def test_attempt_that_sent_nothing_is_repeated(sends: Sends, tmp_path: Path) -> None:
    refused, withdrawn = await sends.begin(a_message(), a_message())
    await sends.settle([refused], FAULT)
    sends.recorder.withdraw([withdrawn.message_key])
    await sends.lose()
    assert await sends.compare(tmp_path) == Found()
    assert await statuses(sends.database) == {"PENDING": 2}


async def test_lost_messages_that_were_sent_are_named(sends: Sends, tmp_path: Path) -> None:
    single, bulk = await sends.begin(a_message(), a_newsletter())
    await sends.settle([single])
    await forget(sends.database, single)
    found = await sends.compare(tmp_path)
    assert (found.lost, found.is_bulk_lost) == ((single.outbox_id,), False)
    await forget(sends.database, bulk)
    found = await sends.compare(tmp_path)
    assert (set(found.lost), found.is_bulk_lost) == ({single.outbox_id, bulk.outbox_id}, True)


async def test_new_message_with_a_lost_key_is_not_confused(sends: Sends, tmp_path: Path) -> None:
    [claimed] = await sends.begin(a_message())
    await sends.settle([claimed])
    other = a_message()
    async with sends.database.write() as tx:
        await tx.execute(update(messages).values(outbox_id=other.outbox_id))
        await tx.execute(update(deliveries).values(status="PENDING", attempted_at=None, attempts=0))
    assert (await sends.compare(tmp_path)).lost == (claimed.outbox_id,)
    assert await status_of(sends.database, other.outbox_id) == Status.PENDING


async def test_records_that_does_not_reach_back_is_incomplete(sends: Sends, tmp_path: Path) -> None:
    claimed = await sends.begin(*(a_newsletter() for _ in range(101)))
    await sends.settle(claimed)
    assert not (await sends.compare(tmp_path)).is_incomplete  # The oldest attempts are known.
    await sends.lose()
    found = await sends.compare(tmp_path)
    assert (found.restored, found.is_incomplete) == (100, True)


async def forget(database: Database, claimed: Claimed) -> None:
    async with database.write() as tx:
        await tx.execute(delete(deliveries).where(deliveries.c.message_key == claimed.message_key))
        await tx.execute(delete(messages).where(messages.c.id == claimed.message_key))


# The guard, which notices that another server took over.


@dataclass
class Machine:
    """A machine with its own state folder."""

    bench: Bench
    state: Path

    def __post_init__(self) -> None:
        self.guard = self.restarted()
        self.recorder = a_recorder(self.state)
        self.was_paused = False

    def restarted(self) -> FailoverGuard:
        bench = self.bench
        self.restores = RestoreGuard(
            bench.database, bench.clock, [FileMarker(self.state, bench.database.url)], sleep=self._sleep
        )
        return FailoverGuard(
            bench.database, bench.clock, self.state, pause_bulk=self._pause, newest_mark=self.restores.newest_mark
        )

    async def start(self) -> None:
        await self.guard.check()
        await self.restores.check()

    async def _sleep(self, _seconds: float) -> None: ...

    async def _pause(self) -> None:
        self.was_paused = True


class Server:
    """A server that has another history until it is promoted."""

    FORMER = "1/00000001"

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        self._bench = bench
        self._patch = monkeypatch
        monkeypatch.setattr(failover_, "find_history", self._former)

    async def _former(self, _: Database) -> str:
        return self.FORMER

    async def fail_over(self) -> None:
        self._patch.undo()
        assert await find_history(self._bench.database) != self.FORMER


@pytest.fixture
def server(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(bench, monkeypatch)


async def failover_of(bench: Bench) -> Failover:
    async with bench.database.read() as tx:
        failover = await load_failover(tx)
    assert failover is not None
    return failover


@on_postgresql
async def test_nothing_is_claimed_before_the_comparison(bench: Bench, server: Server, tmp_path: Path) -> None:
    machine = Machine(bench, tmp_path)
    await machine.start()
    [outbox_id] = await bench.accept(a_message())
    await server.fail_over()
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert provider.messages == []
    await machine.guard.check()
    assert await find_hold(bench.database) is None
    await bench.drain(provider)
    assert provider.outbox_ids == [outbox_id]
    assert not (await failover_of(bench)).has_losses


@on_postgresql
async def test_sending_goes_on_after_lost_commits(bench: Bench, server: Server, tmp_path: Path) -> None:
    machine = Machine(bench, tmp_path)
    await machine.start()
    sends = Sends(bench.database, bench.clock, machine.recorder)
    sent, begun = await sends.begin(a_newsletter(), a_newsletter())
    await sends.settle([sent])
    await sends.lose()
    await server.fail_over()
    await machine.restarted().check()  # The process that sent them was killed.
    failover = await failover_of(bench)
    assert (failover.restored, failover.doubted, failover.ended_at) == (1, 1, bench.clock.now())
    assert [await status_of(bench.database, each.outbox_id) for each in (sent, begun)] == ["SENT", "IN_DOUBT"]
    provider = ScriptedProvider()
    later = await bench.accept(a_newsletter())
    await bench.drain(provider)
    assert provider.outbox_ids == later
    [released, held, *_] = await list_entries(bench.database, tenant_id=None, limit=5)
    assert (released.action, held.action) == ("sending.release", "sending.hold")
    assert not machine.was_paused
    found = {each.name: each for each in await check_health(bench.engine.settings, bench.database, bench.clock)}
    assert "without the latest commits: messages marked as sent: 1, put in doubt: 1" in str(found["failover"].summary)
    assert sum(each.messages for each in (await find_quarantine(bench.database)).messages) == 1


@on_postgresql
async def test_sending_waits_for_the_records_of_all_machines(bench: Bench, server: Server, tmp_path: Path) -> None:
    first, second = Machine(bench, tmp_path / "first"), Machine(bench, tmp_path / "second")
    await first.start()
    await second.start()
    sends = Sends(bench.database, bench.clock, second.recorder)
    [sent] = await sends.begin(a_newsletter())
    await sends.settle([sent])
    await sends.lose()
    await server.fail_over()
    await first.guard.check()
    hold = await find_hold(bench.database)
    assert hold is not None
    assert hold.reason is HoldReason.FAILED_OVER
    await second.guard.check()
    assert await find_hold(bench.database) is None
    assert await status_of(bench.database, sent.outbox_id) == Status.SENT


@on_postgresql
async def test_missing_records_leaves_everything_due_in_doubt(bench: Bench, server: Server, tmp_path: Path) -> None:
    first, second = Machine(bench, tmp_path / "first"), Machine(bench, tmp_path / "second")
    await first.start()
    await second.start()
    due = await bench.accept(a_newsletter(), a_message())
    await server.fail_over()
    await first.guard.check()
    bench.clock.advance(WAIT_FOR_RECORDS)
    later = await bench.accept(a_newsletter())
    await first.guard.check()
    assert await find_hold(bench.database) is None
    assert [await status_of(bench.database, each) for each in (*due, *later)] == ["IN_DOUBT", "IN_DOUBT", "PENDING"]
    failover = await failover_of(bench)
    assert (failover.doubted, failover.is_incomplete, first.was_paused) == (2, True, True)


@on_postgresql
async def test_late_machine_reports_what_was_sent_twice(bench: Bench, server: Server, tmp_path: Path) -> None:
    first, second = Machine(bench, tmp_path / "first"), Machine(bench, tmp_path / "second")
    await first.start()
    await second.start()
    sends = Sends(bench.database, bench.clock, second.recorder)
    [sent] = await sends.begin(a_message())
    await sends.settle([sent])
    await sends.lose()
    bench.clock.advance(MINUTE)  # The second machine was off for some time.
    await first.guard.check()
    await server.fail_over()
    await first.guard.check()
    bench.clock.advance(LOCK_TTL + 2 * SECOND)
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert provider.outbox_ids == [sent.outbox_id]
    await second.restarted().check()
    failover = await failover_of(bench)
    assert (failover.repeated, failover.examples) == (1, (sent.outbox_id,))


@on_postgresql
async def test_lost_accepts_are_reported(bench: Bench, server: Server, tmp_path: Path) -> None:
    machine = Machine(bench, tmp_path)
    await machine.start()
    [outbox_id, kept] = await bench.accept(a_message(), a_message())
    async with bench.database.write() as tx:
        key = (await tx.execute(select(messages.c.id).where(messages.c.outbox_id == outbox_id)))[0].id
        await tx.execute(delete(deliveries).where(deliveries.c.message_key == key))
        await tx.execute(delete(messages).where(messages.c.id == key))
    await server.fail_over()
    await machine.guard.check()
    failover = await failover_of(bench)
    assert (failover.accepted_lost, failover.examples) == (1, (outbox_id,))
    assert await status_of(bench.database, kept) == Status.PENDING


@on_postgresql
async def test_server_of_an_hour_ago_is_held_for_a_person(bench: Bench, server: Server, tmp_path: Path) -> None:
    machine = Machine(bench, tmp_path)
    await machine.start()
    await bench.accept(a_message())
    async with bench.database.write() as tx:
        await store_value(tx, ADVANCED_AT, str(bench.clock.now() - DAY))
    await server.fail_over()
    await machine.guard.check()
    hold = await find_hold(bench.database)
    assert hold is not None
    assert hold.reason is HoldReason.RESTORED


@on_postgresql
async def test_backup_restored_elsewhere_is_held_for_a_person(bench: Bench, server: Server, tmp_path: Path) -> None:
    """The server has another address and history, and this machine knows no state of the database there."""
    await Machine(bench, tmp_path / "before").start()
    [outbox_id] = await bench.accept(a_message())
    await server.fail_over()
    machine = Machine(bench, tmp_path / "elsewhere")
    await machine.start()
    for _ in range(2):
        hold = await find_hold(bench.database)
        assert hold is not None
        assert hold.reason is HoldReason.UNMARKED
        await machine.guard.check()
    assert await status_of(bench.database, outbox_id) == Status.PENDING
    await release_hold(bench.database, bench.clock, actor="ada", due=DueMessages.SEND)
    await machine.guard.check()
    assert await find_hold(bench.database) is None


@on_postgresql
async def test_role_without_the_right_sees_no_history(bench: Bench, postgres_server: PostgresServer) -> None:
    assert await find_history(bench.database) is not None
    role = "mailwright_without_rights"
    url = bench.database.url
    async with bench.database.write() as tx:
        await tx.execute(text(f"DROP ROLE IF EXISTS {role}"))
        await tx.execute(text(f"CREATE ROLE {role} LOGIN"))
        await tx.execute(text("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC"))
    limited = Database(
        str(bench.engine.settings.database_url).replace("postgres@", f"{role}@").replace("postgres:@", f"{role}@")
    )
    try:
        assert limited.url.username == role, url
        assert await find_history(limited) is None
        assert not limited.has_history
    finally:
        await limited.close()
        async with bench.database.write() as tx:
            await tx.execute(text("GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC"))
            await tx.execute(text(f"DROP ROLE {role}"))


async def test_sqlite_has_no_history(tmp_path: Path, clock: ManualClock) -> None:
    async with open_engine(settings_for(f"sqlite:///{tmp_path / 'mailwright.db'}"), clock) as engine:
        assert await find_history(engine.database) is None
