"""Messages are accepted durably or not at all, once per key, in shared commits, on both engines."""

import asyncio
import contextlib
from dataclasses import replace

import pytest
from sqlalchemy import func, insert, select

from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import NotDurable
from mailwright.domain.message import NewMessage
from mailwright.outbox.accept import accept
from mailwright.outbox.accepted_counts import merge_accepted_counts
from mailwright.outbox.audit import audit
from mailwright.storage.database import Database
from mailwright.storage.tables import accepted_counts, contacts, messages, suppressions
from tests.builders import (
    SENT,
    a_bench,
    a_message,
    a_result,
    a_settler,
    a_tenant,
    an_acceptor,
    claims_of,
    deliveries_of,
    status_of,
)
from tests.conftest import DatabaseAddress
from tests.standins.provider import ScriptedProvider


def keyed(key: str, body: str = "a", **changes: object) -> NewMessage:
    return a_message(dedupe_key=key, body_digest=body, **changes)


async def count(database: Database, table: object) -> int:
    async with database.read() as tx:
        return int((await tx.execute(select(func.count()).select_from(table)))[0][0])  # type: ignore[arg-type]


@pytest.mark.promise("accept-durable")
async def test_accepted_message_is_visible_to_another_process(
    engine: DatabaseAddress, database: Database, clock: ManualClock
) -> None:
    message = a_message()
    await an_acceptor(database, clock).accept([message])
    other = Database(engine.url)
    try:
        assert await status_of(other, message.outbox_id) == "PENDING"
    finally:
        await other.close()


@pytest.mark.promise("accept-idempotent")
async def test_same_key_and_body_return_the_first_message(database: Database, clock: ManualClock) -> None:
    intake_ = an_acceptor(database, clock)
    first, again = keyed("k"), keyed("k")
    (fresh,) = await intake_.accept([first])
    (replay,) = await intake_.accept([again])
    assert (fresh.is_replay, replay.is_replay, replay.is_conflict) == (False, True, False)
    assert (replay.outbox_id, replay.request_id) == (first.outbox_id, first.request_id)
    assert await count(database, messages) == 1
    assert (await audit(database)).accepted == 1


@pytest.mark.promise("accept-idempotent")
async def test_same_key_with_another_body_is_a_conflict(database: Database, clock: ManualClock) -> None:
    intake_ = an_acceptor(database, clock)
    await intake_.accept([keyed("k", "a")])
    (answer,) = await intake_.accept([keyed("k", "b")])
    assert answer.is_conflict
    assert await count(database, messages) == 1


@pytest.mark.promise("accept-idempotent")
async def test_replay_returns_the_status_of_the_first_message(database: Database, clock: ManualClock) -> None:
    intake_ = an_acceptor(database, clock)
    await intake_.accept([keyed("k")])
    (claimed,) = await claims_of(database, clock).claim(1)
    settling = a_settler(database, clock)
    await settling.exchange([], [claimed])
    await settling.exchange([a_result(claimed, SENT, clock.now())], [])
    (answer,) = await intake_.accept([keyed("k")])
    assert answer.status == "SENT"


@pytest.mark.promise("accept-idempotent")
async def test_key_counts_once_within_one_batch(database: Database, clock: ManualClock) -> None:
    batch = [keyed("k", "a"), keyed("other"), keyed("k", "a"), keyed("k", "b"), a_message(), a_message()]
    answers = await an_acceptor(database, clock).accept(batch)
    assert [answer.is_replay for answer in answers] == [False, False, True, True, False, False]
    assert [answer.is_conflict for answer in answers] == [False, False, False, True, False, False]
    assert answers[2].outbox_id == answers[3].outbox_id == batch[0].outbox_id
    assert await count(database, messages) == 4


@pytest.mark.promise("accept-idempotent")
async def test_conflict_is_decided_by_each_callers_own_body(database: Database, clock: ManualClock) -> None:
    intake_ = an_acceptor(database, clock)
    await intake_.accept([keyed("k", "a")])
    same, other, same_again = await asyncio.gather(
        intake_.accept([keyed("k", "a")]), intake_.accept([keyed("k", "b")]), intake_.accept([keyed("k", "a")])
    )
    assert [answers[0].is_conflict for answers in (same, other, same_again)] == [False, True, False]


@pytest.mark.promise("accept-idempotent")
async def test_tenants_can_use_the_same_key(database: Database, clock: ManualClock) -> None:
    other = await a_tenant(database, "other")
    answers = await an_acceptor(database, clock).accept([keyed("k"), keyed("k", "b", tenant_id=other)])
    assert [answer.is_replay for answer in answers] == [False, False]


@pytest.mark.promise("accept-idempotent")
async def test_fifty_callers_with_one_key_create_one_message(
    engine: DatabaseAddress, database: Database, clock: ManualClock
) -> None:
    """Half of the callers are in another process, so that they do not share a group commit."""
    elsewhere = Database(engine.url)
    try:
        intakes = [an_acceptor(database, clock), an_acceptor(elsewhere, clock)]
        for key in ("k1", "k2", "k3", "k4"):
            answers = await asyncio.gather(*(intakes[n % 2].accept([keyed(key)]) for n in range(50)))
            assert len({answer[0].outbox_id for answer in answers}) == 1
            assert [answer[0].is_replay for answer in answers].count(False) == 1
    finally:
        await elsewhere.close()
    assert await count(database, messages) == 4
    assert (await audit(database)).accepted == 4
    assert len(await deliveries_of(database)) == 4


@pytest.mark.promise("accept-idempotent")
async def test_two_processes_with_the_same_keys_do_not_deadlock(
    engine: DatabaseAddress, database: Database, clock: ManualClock
) -> None:
    elsewhere = Database(engine.url)
    try:
        for round_ in range(3):
            people = [f"reader{n}@round{round_}.example.com" for n in range(300)]
            ours = [keyed(email, to=email) for email in people]
            theirs = [keyed(email, to=email) for email in reversed(people)]
            here, there = await asyncio.gather(
                an_acceptor(database, clock).accept(ours), an_acceptor(elsewhere, clock).accept(theirs)
            )
            assert sum(not answer.is_replay for answer in (*here, *there)) == 300
    finally:
        await elsewhere.close()
    assert (await audit(database)).accepted == 900


async def test_concurrent_callers_share_few_commits(database: Database, clock: ManualClock) -> None:
    intake_ = an_acceptor(database, clock)
    await asyncio.gather(*(intake_.accept([a_message()]) for _ in range(200)))
    assert await count(database, messages) == 200
    assert await count(database, accepted_counts) <= 3  # one row for each commit


async def test_accepted_counts_are_merged_and_audit_stays_true(engine: DatabaseAddress, clock: ManualClock) -> None:
    async with a_bench(engine.url, clock) as bench:
        await bench.accept(a_message())
        rows = [{"tenant_id": n % 3, "source": "api", "accepted": 1, "created_at": 1} for n in range(7_000)]
        async with bench.database.write() as tx:
            await tx.execute(insert(accepted_counts), rows)
        elsewhere = Database(engine.url)
        try:
            await asyncio.gather(*(merge_accepted_counts(each, 2) for each in (bench.database, elsewhere)))
        finally:
            await elsewhere.close()
        assert (await audit(bench.database)).accepted == 7_001
        async with bench.database.write() as tx:
            await tx.execute(insert(accepted_counts), rows)
        await bench.drain(ScriptedProvider(), runs_source_duties=True)  # One worker of a process merges them.
        assert await count(bench.database, accepted_counts) < 5_000
        assert (await audit(bench.database)).accepted == 14_001


async def test_invalid_message_fails_only_its_own_caller(database: Database, clock: ManualClock) -> None:
    intake_ = an_acceptor(database, clock)
    taken = a_message()
    await intake_.accept([taken])
    unstorable = replace(a_message(), outbox_id=taken.outbox_id)
    good, bad, good_too = await asyncio.gather(
        intake_.accept([a_message()]),
        intake_.accept([unstorable]),
        intake_.accept([a_message()]),
        return_exceptions=True,
    )
    assert isinstance(good, list)
    assert isinstance(bad, Exception)
    assert not isinstance(bad, NotDurable)  # Trying again would not help.
    assert isinstance(good_too, list)
    assert (await audit(database)).accepted == await count(database, messages) == 3


@pytest.mark.promise("accept-durable")
async def test_messages_and_their_source_rows_commit_together(database: Database, clock: ManualClock) -> None:
    class Changed(Exception):
        """The caller changed its mind."""

    source_row = insert(suppressions).values(tenant_id=1, email="a@example.com", reason="r", source="s", created_at=0)
    with contextlib.suppress(Changed):
        async with database.write() as tx:
            await tx.execute(source_row)
            await accept(tx, [a_message(), a_message()], clock.now())
            raise Changed
    for table in (messages, suppressions, accepted_counts, contacts):
        assert await count(database, table) == 0
    assert await deliveries_of(database) == []

    async with database.write() as tx:
        await tx.execute(source_row)
        await accept(tx, [a_message(), a_message()], clock.now())
    assert (await count(database, messages), await count(database, suppressions)) == (2, 1)
    assert (await audit(database)).ok


async def test_each_recipient_becomes_a_contact_once(database: Database, clock: ManualClock) -> None:
    intake_ = an_acceptor(database, clock)
    await intake_.accept([a_message(to="a@example.com"), a_message(to="a@example.com")])
    await intake_.accept([a_message(to="a@example.com")])
    assert await count(database, contacts) == 1
    async with database.read() as tx:
        (contact,) = await tx.execute(select(contacts))
        found = await tx.execute(select(messages.c.external_id, messages.c.contact_key))
    assert {tuple(row) for row in found} == {(contact.contact_id, contact.id)}
