"""Who may receive bulk email: subscribers and contacts with a legal basis, and nobody else."""

from typing import Any

import pytest
from sqlalchemy import select

from mailwright.audience import contacts as contact_store
from mailwright.audience.contacts import ContactChange
from mailwright.audience.importing.imports import Imports
from mailwright.audience.importing.plan import ImportOptions
from mailwright.audience.legal_basis import LegalBasis, LegalBasisRecord
from mailwright.audience.lists import GENERAL
from mailwright.audience.segments import audience, audience_query
from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import InvalidInput
from mailwright.outbox.audit_log import list_entries
from mailwright.schemas.contacts import legal_basis_record
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts
from tests.builders import DEFAULT_TENANT, Bench, a_contact, a_message, a_subscriber, suppress
from tests.campaigns import OPERATOR, CampaignHarness, a_list

ADA, BOB, CLEO = "ada@example.com", "bob@example.com", "cleo@example.com"
EVERYONE = {"status": "active"}


@pytest.fixture
def statuses(database: Database, clock: ManualClock) -> ContactStatusService:
    return ContactStatusService(database, clock)


async def reached(
    database: Database, clock: ManualClock, *lists: str, filter_: dict[str, Any] | None = None
) -> list[str]:
    """Return the audience; both ways to ask for it agree."""
    members = audience(DEFAULT_TENANT, lists, filter_, clock.now())
    joined = audience_query(DEFAULT_TENANT, lists, filter_, clock.now())
    async with database.read() as tx:
        rows = await tx.execute(select(contacts.c.email).where(members).order_by(contacts.c.email))
        same = await tx.execute(joined.add_columns(contacts.c.email).order_by(contacts.c.email))
    found = [row.email for row in rows]
    assert [row.email for row in same] == found
    return found


@pytest.mark.promise("bulk-consent")
async def test_transactional_recipient_is_in_no_bulk_audience(bench: Bench) -> None:
    await bench.accept(a_message(to=ADA))
    await a_subscriber(bench.database, BOB)
    for filter_ in (None, EVERYONE, {"domain": "example.com"}, {"list": GENERAL}):
        assert await reached(bench.database, bench.clock, filter_=filter_) == [BOB]
        assert await reached(bench.database, bench.clock, GENERAL, filter_=filter_) == [BOB]


@pytest.mark.promise("bulk-consent")
async def test_filter_campaign_is_sent_to_subscribers_only(bench: Bench) -> None:
    desk = CampaignHarness(bench)
    content = {"subject": "News", "body": '<a href="{{ unsubscribe_url }}">Leave</a>'}
    await a_subscriber(bench.database, ADA)
    await a_contact(bench.database, BOB)
    campaign_id = await desk.create(lists=[], filter=EVERYONE, content=content)
    await desk.campaigns.test_send(OPERATOR, campaign_id, [CLEO])
    await bench.drain()
    await desk.campaigns.start(OPERATOR, campaign_id)
    await desk.run_scheduler()
    assert await desk.addresses(campaign_id) == [ADA]


@pytest.mark.promise("bulk-consent")
async def test_unsubscribed_from_list_is_not_reached_through_it(
    database: Database, clock: ManualClock, statuses: ContactStatusService
) -> None:
    for list_key in ("news", "offers"):
        await a_list(database, list_key)
    await a_subscriber(database, ADA, "news")
    await a_subscriber(database, BOB, "news")
    await statuses.subscribe(DEFAULT_TENANT, BOB, "offers", source="test")
    await a_contact(database, CLEO, legal_basis="contract")
    assert await reached(database, clock, filter_=EVERYONE) == [ADA, BOB, CLEO]
    for email in (ADA, BOB, CLEO):
        await statuses.unsubscribe_by_link(DEFAULT_TENANT, email, "news", source="link")
    assert await reached(database, clock, filter_=EVERYONE) == [BOB]
    assert await reached(database, clock, "news") == []
    assert await reached(database, clock, "news", "offers") == [BOB]
    await statuses.resubscribe_by_link(DEFAULT_TENANT, ADA, "news", source="link")
    assert await reached(database, clock, filter_=EVERYONE) == [ADA, BOB]


async def test_pending_or_suppressed_subscription_reaches_nobody(
    database: Database, clock: ManualClock, statuses: ContactStatusService
) -> None:
    await a_list(database, "news")
    await a_subscriber(database, ADA, "news")
    await a_subscriber(database, BOB, "news")
    await suppress(database, BOB, list_key="news")
    assert await reached(database, clock, filter_=EVERYONE) == [ADA]
    await suppress(database, ADA, list_key=GENERAL)
    assert await reached(database, clock, filter_=EVERYONE) == []


async def test_subscription_to_general_counts_as_subscription(
    database: Database, clock: ManualClock, statuses: ContactStatusService
) -> None:
    await a_contact(database, ADA)
    assert await statuses.subscribe(DEFAULT_TENANT, ADA, GENERAL, source="test")
    assert await reached(database, clock) == [ADA]
    await statuses.unsubscribe(DEFAULT_TENANT, ADA, GENERAL, source="test")
    assert await reached(database, clock) == []
    await statuses.subscribe(DEFAULT_TENANT, ADA, GENERAL, source="test")
    assert await reached(database, clock) == [ADA]


async def test_legal_basis_reaches_contact_and_records_its_origin(database: Database, clock: ManualClock) -> None:
    await a_contact(database, ADA)
    record = LegalBasisRecord(LegalBasis.CONTRACT, "Order 7", "ann")
    await contact_store.put(database, clock, DEFAULT_TENANT, ADA, ContactChange(legal_basis=record))
    found = await contact_store.find_by_email(database, DEFAULT_TENANT, ADA)
    assert (found.legal_basis, found.legal_basis_source, found.legal_basis_by) == ("contract", "Order 7", "ann")
    assert found.legal_basis_at == clock.now()
    assert await reached(database, clock, filter_=EVERYONE) == [ADA]
    [entry] = await list_entries(database, tenant_id=DEFAULT_TENANT, limit=10, subject=ADA)
    assert (entry.actor, entry.action) == ("ann", "contact.legal_basis")
    removed = LegalBasisRecord(None, "Contract ended", "ann")
    await contact_store.put(database, clock, DEFAULT_TENANT, ADA, ContactChange(legal_basis=removed))
    assert await reached(database, clock, filter_=EVERYONE) == []


async def test_import_without_list_or_legal_basis_subscribes_nobody(
    database: Database, clock: ManualClock, tmp_path: Any
) -> None:
    await a_contact(database, BOB)
    file = tmp_path / "people.csv"
    file.write_text(f"email\n{ADA}\n{BOB}\n")

    async def import_(options: ImportOptions) -> Any:
        imports = Imports(database, clock)
        begun = await imports.begin(DEFAULT_TENANT, file, options, actor="ann")
        return [progress async for progress in imports.run(begun, file)][-1]

    await import_(ImportOptions())
    assert await reached(database, clock) == []
    basis = LegalBasisRecord(LegalBasis.LEGITIMATE_INTEREST, "Members of the club", "ann")
    done = await import_(ImportOptions(legal_basis=basis))
    assert (done.changed, done.unchanged) == (2, 0)
    assert await reached(database, clock) == [ADA, BOB]
    found = await contact_store.find_by_email(database, DEFAULT_TENANT, BOB)
    assert found.legal_basis_source == f"Members of the club (import:{done.import_id})"
    assert (await import_(ImportOptions(legal_basis=basis))).unchanged == 2


async def test_unknown_legal_basis_is_refused() -> None:
    with pytest.raises(InvalidInput, match="must be one of consent"):
        legal_basis_record("habit", None, "api")
