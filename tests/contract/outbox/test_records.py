"""Message records with their timelines, and lists page by page, on both engines."""

import pytest
from sqlalchemy import select

from mailwright.domain.clock import HOUR, MINUTE, ManualClock
from mailwright.domain.errors import NotFound
from mailwright.domain.message import Delivered, Source
from mailwright.domain.states import EventType, Status
from mailwright.outbox import message_records
from mailwright.outbox.defer import record_lane_deferral
from mailwright.outbox.message_records import MessageSearch
from mailwright.outbox.queue_gauges import QueueState, queue_state
from mailwright.storage.database import Database
from mailwright.storage.tables import deliveries
from tests.builders import a_message, a_settler, an_acceptor, claims_of
from tests.contract.outbox.test_operations import a_failed_message, a_message_in_doubt, begun


async def test_record_contains_all_events_in_order(database: Database, clock: ManualClock) -> None:
    outbox_id, claimed = await begun(database, clock, to="reader@example.com", request_id="request-1")
    started = clock.now()
    clock.advance(MINUTE)
    delivered = Delivered(claimed, started, started, clock.now(), provider="ses", provider_message_id="0100")
    await a_settler(database, clock).exchange([delivered], [])
    record = await message_records.find(database, outbox_id, tenant_id=1)
    assert [(event.type, event.at, event.metadata["attempt"]) for event in record.events] == [
        (EventType.RECEIVED, started, 1),
        (EventType.VALIDATED, started, 1),
        (EventType.SENT_ATTEMPT, started, 1),
        (EventType.SENT, clock.now(), 1),
    ]
    assert (record.tenant, record.payload) == ("default", claimed.payload)
    summary = record.summary
    assert (summary.status, summary.attempts, summary.duration_ms) == (Status.SENT, 1, MINUTE)
    assert (summary.to_email, summary.request_id, summary.source) == ("reader@example.com", "request-1", "api")
    assert (summary.provider, summary.provider_message_id) == ("ses", "0100")
    assert (summary.created_at, summary.sent_at, summary.processed_at) == (started, clock.now(), clock.now())


@pytest.mark.promise("tenant-isolation")
@pytest.mark.parametrize("outbox_id", [None, "01a1dce8-30b8-745e-9adf-a067f60952fb", "nonsense", "a\0b"])
async def test_record_of_another_tenant_is_not_found(
    database: Database, clock: ManualClock, outbox_id: str | None
) -> None:
    wanted = outbox_id or (await begun(database, clock))[0]
    with pytest.raises(NotFound):
        await message_records.find(database, wanted, tenant_id=2)


@pytest.mark.promise("tenant-isolation")
async def test_recipients_are_those_of_the_tenants_own_messages(database: Database, clock: ManualClock) -> None:
    acceptor = an_acceptor(database, clock)
    given = [a_message(to="ada@example.com"), a_message(to="account@example.com", request_id="account:1")]
    accepted = await acceptor.accept([*given, a_message(to="other@example.com", tenant_id=2)])
    ids = [each.outbox_id for each in accepted]
    assert await message_records.find_recipients(database, 1, ids) == {
        ids[0]: "ada@example.com",
        ids[1]: "account@example.com",
    }
    limited = await message_records.find_recipients(database, 1, ids, without="account:")
    assert limited == {ids[0]: "ada@example.com"}


async def test_pages_have_no_gaps_or_duplicates(database: Database, clock: ManualClock) -> None:
    acceptor = an_acceptor(database, clock)
    ours = [a_message(to=f"reader{number:02}@example.com") for number in range(25)]
    for message in ours:
        await acceptor.accept([message])
    await acceptor.accept([a_message(tenant_id=2) for _ in range(5)])
    found: list[str] = []
    before = message_records.NEWEST
    while page := await message_records.search(database, 1, MessageSearch(before_key=before), limit=10):
        await acceptor.accept([a_message()])  # Messages that arrive meanwhile are newer than the remaining pages.
        found.extend(message.outbox_id for message in page)
        before = page[-1].message_key
    assert found == [message.outbox_id for message in reversed(ours)]


async def test_search_applies_its_conditions(database: Database, clock: ManualClock) -> None:
    acceptor = an_acceptor(database, clock)
    start = clock.now()
    failed = await a_failed_message(database, clock)
    clock.advance(HOUR)
    await acceptor.accept([a_message(to="ann@example.com")])
    await acceptor.accept([a_message(to="bob@example.com", source=Source.ARTICLE)])

    async def found(**wanted: object) -> list[str]:
        return [each.to_email for each in await message_records.search(database, 1, MessageSearch(**wanted), limit=10)]  # type: ignore[arg-type]

    assert len(await found()) == 3
    assert await found(to_email="ann@example.com") == ["ann@example.com"]
    assert await found(source=Source.ARTICLE) == ["bob@example.com"]
    assert await found(status=Status.PENDING) == ["bob@example.com", "ann@example.com"]
    assert await found(since=start + 1) == ["bob@example.com", "ann@example.com"]
    assert await found(status=Status.FAILED, until=start + HOUR) == await found(until=start + HOUR)
    [only] = await message_records.search(database, 1, MessageSearch(status=Status.FAILED), limit=10)
    assert only.outbox_id == failed
    assert await found(status=Status.FAILED, before_key=only.message_key) == []


async def test_dead_letters_are_paged_newest_first(database: Database, clock: ManualClock) -> None:
    dead_letter_list = []
    for number in range(5):
        dead_letter_list.append(await a_failed_message(database, clock))
        clock.advance(number % 2)  # Some messages have the same time.
    found: list[str] = []
    before = (message_records.NEWEST, message_records.NEWEST)
    while page := await message_records.dead_letters(database, 1, limit=2, before=before):
        found.extend(dead_letter.outbox_id for dead_letter in page)
        before = (page[-1].created_at, page[-1].message_key)
    assert found == dead_letter_list[::-1]
    assert page == await message_records.dead_letters(database, 2, limit=2) == []


async def test_queue_state_counts_waiting_and_unresolved_messages(database: Database, clock: ManualClock) -> None:
    assert await queue_state(database, clock.now()) == QueueState(0, 0, 0, 0, 0, None)
    await a_failed_message(database, clock)
    await a_message_in_doubt(database, clock)
    await begun(database, clock)
    oldest = clock.now()
    await an_acceptor(database, clock).accept([a_message(), a_message(), a_message(scheduled_at=oldest + HOUR)])
    clock.advance(MINUTE)
    await an_acceptor(database, clock).accept([a_message()])
    assert await queue_state(database, clock.now()) == QueueState(
        due=3, later=1, sending=1, in_doubt=1, dead_letters=1, oldest_due=oldest
    )
    await claims_of(database, clock).claim(2)
    state = await queue_state(database, clock.now())
    assert (state.due, state.later, state.sending) == (1, 1, 3)


@pytest.mark.parametrize(("reason", "is_planned"), [("rate_limited", True), ("provider_unavailable", False)])
async def test_planned_wait_does_not_age_due_messages(
    database: Database, clock: ManualClock, reason: str, is_planned: bool
) -> None:
    await an_acceptor(database, clock).accept([a_message()])
    accepted_at = clock.now()
    async with database.write() as tx:
        [row] = await tx.execute(select(deliveries.c.lane))
        await record_lane_deferral(tx, row.lane, reason, accepted_at + HOUR)
    clock.advance(HOUR - 1)
    assert (await queue_state(database, clock.now())).oldest_due == (None if is_planned else accepted_at)
    clock.advance(HOUR)
    oldest = (await queue_state(database, clock.now())).oldest_due
    assert oldest == (accepted_at + HOUR if is_planned else accepted_at)
