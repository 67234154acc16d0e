"""Search of messages and contacts, and the audit log of actions on them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from mailwright.audience import contacts, lists, segments, suppressions
from mailwright.audience import search as finding
from mailwright.audience.contacts import ContactChange
from mailwright.audience.importing import imports
from mailwright.audience.importing.imports import Import, Imports
from mailwright.audience.importing.plan import ImportOptions
from mailwright.audience.importing.uploads import STALE_AFTER, ImportUploads
from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import HOUR, ManualClock
from mailwright.domain.errors import NotFound
from mailwright.domain.message import Source
from mailwright.domain.permits import Deferral
from mailwright.domain.states import Status
from mailwright.outbox import search as messages
from mailwright.outbox.audit_log import list_entries
from mailwright.outbox.defer import defer_lane
from mailwright.outbox.message_records import MessageSearch
from mailwright.outbox.operations import Operations
from mailwright.pipeline.rerender import render_subjects
from mailwright.storage.database import Database
from mailwright.storage.tables import deliveries
from tests.builders import DEFAULT_TENANT, a_contact, a_message, a_tenant, an_acceptor


async def subjects(database: Database, **wanted: object) -> list[str]:
    found = await messages.find_page(database, DEFAULT_TENANT, MessageSearch(**wanted), limit=10)  # type: ignore[arg-type]
    return [each.subject for each in found.messages]


async def test_search_matches_part_of_subject_or_address(database: Database, clock: ManualClock) -> None:
    other = await a_tenant(database, "other")
    await an_acceptor(database, clock).accept(
        [
            a_message(to="ada@example.com", subject="Your Invoice for March"),
            a_message(to="invoices@example.org", subject="Hello", source=Source.NOTIFICATION),
            a_message(to="ada@example.com", subject="100% off_today"),
            a_message(to="ada@example.com", subject="Invoice of another", tenant_id=other),
        ]
    )
    assert await subjects(database, words="INVOICE") == ["Hello", "Your Invoice for March"]
    assert await subjects(database, words="0% off_") == ["100% off_today"]
    assert await subjects(database, words="invoice", source=Source.NOTIFICATION) == ["Hello"]
    assert await subjects(database, words="invoice", status=Status.SENT) == []
    assert await subjects(database, to_email="ada@example.com", words="march") == ["Your Invoice for March"]


async def test_waiting_message_is_listed_with_reason_and_time(database: Database, clock: ManualClock) -> None:
    await an_acceptor(database, clock).accept([a_message(to="ada@example.com"), a_message(to="grace@example.com")])
    wanted = await messages.find_page(database, DEFAULT_TENANT, MessageSearch(), limit=10)
    now = clock.now()
    assert await messages.find_deferrals(database, wanted.messages, now) == {}
    async with database.read() as tx:
        [lane] = {row.lane for row in await tx.execute(select(deliveries.c.lane))}
    await defer_lane(database, lane, "rate_per_hour", now + HOUR)
    both = {each.message_key for each in wanted.messages}
    assert await messages.find_deferrals(database, wanted.messages, now) == dict.fromkeys(
        both, Deferral(now + HOUR, "rate_per_hour")
    )
    assert await messages.find_deferrals(database, wanted.messages, now + HOUR) == {}


async def test_search_without_an_index_is_bounded(
    database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "SCAN_LIMIT", 3)
    monkeypatch.setattr(finding, "SCAN_LIMIT", 3)
    wanted = ["needle"] + ["hay"] * 4 + ["needle"] + ["hay"] * 2
    await an_acceptor(database, clock).accept([a_message(subject=subject) for subject in wanted])
    found, before, looks = 0, messages.NEWEST, 0
    while True:
        search = MessageSearch(words="needle", before_key=before)
        page = await messages.find_page(database, DEFAULT_TENANT, search, limit=10)
        found, looks = found + len(page.messages), looks + 1
        if page.next_key is None:
            break
        assert page.is_cut
        before = page.next_key
    assert (found, looks) == (2, 3)

    for number, name in enumerate(["Needle", "Hay", "Hay", "Hay", "Needle"]):
        await a_contact(database, f"person{number}@example.com", name=name)
    first = await finding.search_contacts(database, DEFAULT_TENANT, finding.ContactQuery("needle"), limit=10)
    assert [each.email for each in first.contacts] == ["person4@example.com"]
    assert first.is_cut
    assert first.next_key is not None
    rest = await finding.search_contacts(
        database, DEFAULT_TENANT, finding.ContactQuery("needle"), limit=10, after=first.next_key
    )
    assert [each.email for each in rest.contacts] == ["person0@example.com"]


async def test_contacts_are_found_by_name_status_list_and_tag(database: Database, clock: ManualClock) -> None:
    standing = ContactStatusService(database, clock)
    await lists.create(database, clock, DEFAULT_TENANT, "news")
    for name, tags in (("Ada", ["vip"]), ("Grace", ["vip"]), ("Alan", [])):
        email = f"{name.lower()}@example.com"
        await contacts.put(database, clock, DEFAULT_TENANT, email, ContactChange(name=name, tags=tags))
    for name in ("ada", "grace", "alan"):
        await standing.subscribe(DEFAULT_TENANT, f"{name}@example.com", "news", source="test")
    await standing.unsubscribe_by_link(DEFAULT_TENANT, "grace@example.com", "news", source="test")
    await standing.bounce(DEFAULT_TENANT, "alan@example.com", source="test")

    async def names(**asked: str) -> list[str | None]:
        found = await finding.search_contacts(database, DEFAULT_TENANT, finding.ContactQuery(**asked), limit=10)
        return [each.name for each in found.contacts]

    assert await names() == ["Alan", "Grace", "Ada"]
    assert await names(text="GRA") == ["Grace"]
    assert await names(text="ada@example.com") == ["Ada"]
    assert await names(status="bounced") == ["Alan"]
    assert await names(tag="vip") == ["Grace", "Ada"]
    assert await names(list_key="news") == ["Alan", "Ada"]
    assert await names(list_key="news", tag="vip") == ["Ada"]
    assert await names(list_key="news", status="active") == ["Ada"]
    assert await names(list_key="general") == ["Alan", "Ada"]  # Grace has no subscription any more.
    assert await finding.count_subscribers(database, DEFAULT_TENANT, "news") == 2
    assert await finding.list_tags(database, DEFAULT_TENANT) == ["vip"]
    page = await finding.search_contacts(database, DEFAULT_TENANT, finding.ContactQuery(tag="vip"), limit=1)
    rest = await finding.search_contacts(
        database, DEFAULT_TENANT, finding.ContactQuery(tag="vip"), limit=5, after=page.next_key or 0
    )
    assert [each.name for each in (*page.contacts, *rest.contacts)] == ["Grace", "Ada"]


async def test_actions_are_in_the_audit_log_with_their_actor(database: Database, clock: ManualClock) -> None:
    [accepted] = await an_acceptor(database, clock).accept([a_message()])
    who, tenant_id = "grace", DEFAULT_TENANT
    await Operations(database, clock).cancel(accepted.outbox_id, tenant_id=tenant_id, actor=who)
    await lists.create(database, clock, tenant_id, "news", actor=who)
    await contacts.put(database, clock, tenant_id, "ada@example.com", ContactChange(name="Ada"), actor=who)
    standing = ContactStatusService(database, clock)
    await standing.subscribe(tenant_id, "ada@example.com", "news", source=who, actor=who)
    await standing.unsubscribe(tenant_id, "ada@example.com", "news", source=who, actor=who)
    await suppressions.add(database, clock, tenant_id, "ada@example.com", reason="r", source=who, actor=who)
    await suppressions.remove(database, tenant_id, "ada@example.com", actor=who, clock=clock)
    await segments.create(database, clock, tenant_id, "vips", filter_={"tag": "vip"}, actor=who)
    await segments.delete_segment(database, tenant_id, "vips", actor=who, clock=clock)
    noted = await list_entries(database, tenant_id=tenant_id, limit=20)
    assert {each.actor for each in noted} == {who}
    assert [each.action for each in reversed(noted)] == [
        "message.cancel",
        "list.create",
        "contact.put",
        "contact.subscribe",
        "contact.unsubscribe",
        "suppression.add",
        "suppression.lift",
        "segment.create",
        "segment.forget",
    ]
    assert noted[-1].subject == accepted.outbox_id


async def test_uploaded_file_is_visible_only_to_its_tenant(
    database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    other = await a_tenant(database, "other")
    desk = ImportUploads(Imports(database, clock), clock, tmp_path, largest=1_000_000)

    async def content() -> AsyncIterator[bytes]:
        yield b"Email,City\nada@example.com,London\n"

    token = (await desk.stage(DEFAULT_TENANT, content())).token
    assert await desk.staged_titles(DEFAULT_TENANT, token) == ("Email", "City")
    for stranger, name in ((other, token), (DEFAULT_TENANT, "../" + token), (DEFAULT_TENANT, "0" * 32)):
        with pytest.raises(NotFound):
            await desk.preview_staged(stranger, name, ImportOptions())
    begun = await desk.receive_staged(DEFAULT_TENANT, token, ImportOptions(), file_name="people.csv", actor="grace")
    await desk.finish()
    assert (await desk.find(DEFAULT_TENANT, begun.import_id)).added == 1
    assert not list(tmp_path.glob("*.kept"))
    with pytest.raises(NotFound):
        await desk.staged_titles(DEFAULT_TENANT, token)


@pytest.mark.promise("import-report")
async def test_interrupted_import_continues_after_its_last_batch(
    database: Database, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "BATCH_SIZE", 2)
    folder = tmp_path / "files"
    closing: list[asyncio.Task[None]] = []

    class Stopped(Imports):
        async def run(self, *of_file: Any) -> AsyncGenerator[Import, None]:
            async for done in super().run(*of_file):
                closing.append(asyncio.create_task(stopping.close()))
                await asyncio.sleep(0)
                yield done

    async def content() -> AsyncIterator[bytes]:
        yield b"email\n" + b"".join(b"reader%d@example.com\n" % number for number in range(5))

    stopping = ImportUploads(Stopped(database, clock), clock, folder, largest=1_000_000)
    begun = await stopping.receive(DEFAULT_TENANT, content(), ImportOptions(), file_name="people.csv")
    await stopping.finish()
    await asyncio.gather(*closing)
    waiting = await stopping.receive(DEFAULT_TENANT, content(), ImportOptions(), file_name="later.csv")
    await stopping.finish()
    found = [await Imports(database, clock).find(DEFAULT_TENANT, each.import_id) for each in (begun, waiting)]
    assert [(each.records, each.finished_at) for each in found] == [(2, None), (0, None)]

    clock.advance(STALE_AFTER)
    next_one = ImportUploads(Imports(database, clock), clock, folder, largest=1_000_000)
    await next_one.resume_interrupted()
    await next_one.finish()
    assert [(await next_one.find(DEFAULT_TENANT, each.import_id)).records for each in (begun, waiting)] == [5, 5]
    assert {path.name for path in folder.iterdir()} == {f"{each.import_id}.report.csv" for each in (begun, waiting)}


async def test_subjects_are_listed_as_recipients_see_them(database: Database, clock: ManualClock) -> None:
    await an_acceptor(database, clock).accept(
        [
            a_message(
                to="ada@example.com", subject="{{ name }}, hello", payload={"to": "ada@example.com", "toName": "Ada"}
            ),
            a_message(to="grace@example.com", subject="{{ seat }}", payload={"to": "grace@example.com"}),
            a_message(to="alan@example.com", subject="Plain"),
        ]
    )
    found = (await messages.find_page(database, DEFAULT_TENANT, MessageSearch(), limit=10)).messages
    subjects = {each.outbox_id: each.subject for each in found}
    filled = await render_subjects(database, subjects, tenant_id=DEFAULT_TENANT, at=clock.now())
    assert sorted(filled.values()) == ["Ada, hello"]  # A subject that cannot be rendered is shown as its template.


ORDERS = list(finding.ContactOrder)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("asked", [{}, {"text": "example"}, {"status": "active"}, {"list_key": "news"}, {"tag": "vip"}])
async def test_every_order_shows_each_contact_once(
    database: Database, clock: ManualClock, order: finding.ContactOrder, asked: dict[str, str]
) -> None:
    standing = ContactStatusService(database, clock)
    await lists.create(database, clock, DEFAULT_TENANT, "news")
    names = ["b.c", "a", "bc", "d", "b_d", "z", "c"]
    for name in names:
        await contacts.put(database, clock, DEFAULT_TENANT, f"{name}@example.com", ContactChange(tags=["vip"]))
        await standing.subscribe(DEFAULT_TENANT, f"{name}@example.com", "news", source="test")
    expected = [f"{name}@example.com" for name in names]
    if "email" in order:
        expected.sort()
    if order.startswith("-"):
        expected.reverse()
    found: list[str] = []
    after: int | None = None
    for _ in range(20):
        page = await finding.search_contacts(
            database, DEFAULT_TENANT, finding.ContactQuery(**asked), limit=3, after=after, order=order, scan_limit=2
        )
        found += [each.email for each in page.contacts]
        after = page.next_key
        if after is None:
            break
    assert found == expected
    assert await finding.count_contacts(database, DEFAULT_TENANT, most=4) == 4
