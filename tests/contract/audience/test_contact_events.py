"""Contact events are stored once, in the order of their keys, for the address that they belong to."""

import asyncio
from typing import Any

import pytest

from mailwright.audience import contact_events as stored
from mailwright.audience.contact_events import ContactEvents, EventStatus, NewContactEvent
from mailwright.audience.erasure import erase
from mailwright.audience.event_schema import MAX_NAMES, EventSchema, EventSchemaCounter, load_schema
from mailwright.audience.personal_data import export_personal_data
from mailwright.domain.clock import DAY, ManualClock
from mailwright.domain.errors import NotFound
from mailwright.domain.retention import RetentionKind
from mailwright.outbox.retention import Retention, RetentionServices
from mailwright.outbox.retention_rules import set_rule
from mailwright.storage.database import Database
from mailwright.storage.horizon import HorizonWatch
from mailwright.storage.tables import contact_events
from tests.builders import DEFAULT_TENANT, a_contact, a_tenant
from tests.conftest import DatabaseAddress

ACCEPTED, DUPLICATE, CONFLICT = EventStatus.ACCEPTED, EventStatus.DUPLICATE, EventStatus.CONFLICT


def an_event(event_id: str = "1", **changes: Any) -> NewContactEvent:
    properties = changes.pop("properties", {"total": 20})
    defaults: dict[str, Any] = {
        "tenant_id": DEFAULT_TENANT,
        "event_id": event_id,
        "email": "ada@example.com",
        "name": "order.placed",
        "properties": stored.encode_properties(properties),
        "occurred_at": ManualClock().now(),
    }
    return NewContactEvent(**{**defaults, **changes})


async def ids_of(database: Database, tenant_id: int = DEFAULT_TENANT) -> list[str]:
    found = await stored.list_latest(database, tenant_id, limit=20_000)
    return [event.event_id for event in reversed(found)]


async def schema_of(database: Database) -> list[EventSchema]:
    await EventSchemaCounter(database, batch_size=70).count_all()
    await EventSchemaCounter(database).count_all()
    return await load_schema(database, DEFAULT_TENANT)


@pytest.mark.promise("event-once")
async def test_repeated_event_is_stored_once(database: Database, clock: ManualClock) -> None:
    events = ContactEvents(database, clock)
    assert await events.accept([an_event(), an_event("2"), an_event()]) == [ACCEPTED, ACCEPTED, DUPLICATE]
    # After a crash between commit and answer, the caller repeats the request in another process.
    assert await ContactEvents(database, clock).accept([an_event("2"), an_event("3")]) == [DUPLICATE, ACCEPTED]
    assert await ids_of(database) == ["1", "2", "3"]


@pytest.mark.promise("event-once")
async def test_id_of_another_event_is_a_conflict(database: Database, clock: ManualClock) -> None:
    events = ContactEvents(database, clock)
    await events.accept([an_event()])
    others = [an_event(email="eve@example.com"), an_event(name="order.paid"), an_event(properties={"total": 21})]
    assert await events.accept(others) == [CONFLICT] * 3
    assert await events.accept([an_event(occurred_at=clock.now() - 1)]) == [DUPLICATE]


@pytest.mark.promise("event-once")
async def test_concurrent_processes_store_an_event_once(
    engine: DatabaseAddress, database: Database, clock: ManualClock
) -> None:
    other = Database(engine.url)
    try:
        processes = [ContactEvents(each, clock) for each in (database, other)]
        batch = [an_event(str(number)) for number in range(300)]
        answers = await asyncio.gather(*(process.accept(batch) for process in processes for _ in range(3)))
    finally:
        await other.close()
    accepted = [sum(answer[number] is ACCEPTED for answer in answers) for number in range(300)]
    assert accepted == [1] * 300
    assert {status for answer in answers for status in answer} == {ACCEPTED, DUPLICATE}
    assert await ids_of(database) == [str(number) for number in range(300)]
    [schema] = await schema_of(database)
    assert schema.events == 300


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
async def test_reader_waits_for_events_of_open_transactions(database: Database, clock: ManualClock) -> None:
    """Only on PostgreSQL: SQLite has one writer at a time."""
    horizon = HorizonWatch(contact_events)
    events = ContactEvents(database, clock)
    async with database.write() as slow:
        await stored.store(slow, [an_event("slow")], clock.now())
        await events.accept([an_event("quick")])
        assert await horizon.look(database) == 0
    reach = await horizon.look(database)
    async with database.read() as tx:
        read = await stored.load_after(tx, 0, reach, limit=10)
    assert [event.event_id for event in read] == ["slow", "quick"]


async def test_reader_gets_events_by_tenant_and_name(database: Database, clock: ManualClock) -> None:
    await a_contact(database, "ada@example.com")
    other = await a_tenant(database, "other")
    batch = [an_event("1"), an_event("2", tenant_id=other), an_event("3", name="order.paid"), an_event("4")]
    await ContactEvents(database, clock).accept(batch)
    reach = await HorizonWatch(contact_events).look(database)
    async with database.read() as tx:
        [first] = await stored.load_after(tx, 0, reach, limit=1)
        rest = await stored.load_after(tx, first.id, reach, limit=10, tenant_id=DEFAULT_TENANT, names=["order.placed"])
        [theirs] = await stored.load_after(tx, 0, reach, limit=10, tenant_id=other)
    assert (first.event_id, first.email, first.properties) == ("1", "ada@example.com", {"total": 20})
    assert [event.event_id for event in rest] == ["4"]
    assert (first.contact_key is None, theirs.contact_key) == (False, None)


async def test_deleted_newest_key_is_not_given_again(database: Database, clock: ManualClock) -> None:
    """A cursor would skip the next event otherwise."""
    await a_contact(database, "ada@example.com")
    events = ContactEvents(database, clock)
    await events.accept([an_event()])
    [before] = await stored.list_latest(database, DEFAULT_TENANT, limit=1)
    await erase(database, clock, DEFAULT_TENANT, "ada@example.com", actor="tests")
    await events.accept([an_event("2", email="eve@example.com")])
    [after] = await stored.list_latest(database, DEFAULT_TENANT, limit=1)
    assert after.id > before.id


async def test_events_of_erased_contacts_are_dropped(database: Database, clock: ManualClock) -> None:
    await a_contact(database, "ada@example.com")
    events = ContactEvents(database, clock)
    await events.accept([an_event()])
    await erase(database, clock, DEFAULT_TENANT, "ada@example.com", actor="tests")
    batch = [an_event("1"), an_event("2", creates_contact=True), an_event("3", email="eve@example.com")]
    assert await events.accept(batch) == [ACCEPTED] * 3
    assert await ids_of(database) == ["3"]
    [schema] = await schema_of(database)
    assert schema.events == 1


async def test_address_without_contact_can_be_erased(database: Database, clock: ManualClock) -> None:
    events = ContactEvents(database, clock)
    await events.accept([an_event()])
    await erase(database, clock, DEFAULT_TENANT, "ada@example.com", actor="tests")
    await events.accept([an_event("2")])
    assert await ids_of(database) == []
    with pytest.raises(NotFound):
        await erase(database, clock, DEFAULT_TENANT, "ada@example.com", actor="tests")


async def test_personal_data_contains_events(database: Database, clock: ManualClock) -> None:
    await a_contact(database, "ada@example.com")
    await ContactEvents(database, clock).accept([an_event(str(number)) for number in range(201)])
    exported = await export_personal_data(database, DEFAULT_TENANT, "ada@example.com")
    assert [event["eventId"] for event in exported["events"]] == [str(number) for number in reversed(range(201))]


async def test_retention_deletes_old_events(database: Database, clock: ManualClock) -> None:
    events = ContactEvents(database, clock)
    await events.accept([an_event("old")])
    clock.advance(30 * DAY)
    await events.accept([an_event("new", occurred_at=clock.now() - 60 * DAY)])
    clock.advance(1)
    rule = await set_rule(
        database, clock, DEFAULT_TENANT, RetentionKind.CONTACT_EVENTS, days=30, exports=False, actor="tests"
    )
    retention = Retention(RetentionServices(database, clock, soft_bounce_days=30))
    assert (await retention.preview(DEFAULT_TENANT, RetentionKind.CONTACT_EVENTS, 30)).rows == 1
    assert (await retention.run_batch(rule, 100)).rows == 1
    assert await ids_of(database) == ["new"]


async def test_schema_lists_types_of_properties(database: Database, clock: ManualClock) -> None:
    events = ContactEvents(database, clock)
    values = {"text": "a", "whole": 1, "part": 0.5, "flag": True, "nothing": None, "list": [1], "object": {"a": 1}}
    await events.accept([an_event("1", properties=values)])
    clock.advance(DAY)
    await events.accept([an_event("2", properties={"text": 5}), an_event("3", name="empty", properties={})])
    empty, placed = await schema_of(database)
    assert (empty.name, empty.events, empty.properties) == ("empty", 1, ())
    assert (placed.events, placed.last_at - placed.first_at) == (2, DAY)
    assert {each.name: dict(each.types) for each in placed.properties} == {
        "text": {"string": 1, "number": 1},
        "whole": {"number": 1},
        "part": {"number": 1},
        "flag": {"boolean": 1},
        "nothing": {"null": 1},
        "list": {"array": 1},
        "object": {"object": 1},
    }


async def test_schema_has_a_limited_number_of_names(database: Database, clock: ManualClock) -> None:
    events = ContactEvents(database, clock)
    await events.accept([an_event(str(number), name=f"order-{number}") for number in range(MAX_NAMES)])
    await schema_of(database)
    await events.accept([an_event("more", name="one-more"), an_event("known", name="order-0")])
    schema = await schema_of(database)
    assert len(schema) == MAX_NAMES
    assert schema[0].events == 2
    assert "more" in await ids_of(database)


async def test_ten_thousand_events_of_one_contact_are_stored(database: Database, clock: ManualClock) -> None:
    batch = [an_event(str(number)) for number in range(10_000)]
    await ContactEvents(database, clock).accept(batch)
    assert await ids_of(database) == [str(number) for number in range(10_000)]
