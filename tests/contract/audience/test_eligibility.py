"""Who may receive bulk email: subscribers and contacts with a legal basis, and nobody else."""

import random
from typing import Any

import pytest
from sqlalchemy import select

from mailwright.actions.exclusions import exclusion_text
from mailwright.audience import contacts as contact_store
from mailwright.audience.attribute_names import find_case_mistakes
from mailwright.audience.contacts import ContactChange
from mailwright.audience.eligibility import Exclusion, find_opt_out
from mailwright.audience.exclusions import NamedAudience, count_excluded, count_not_on_lists, list_excluded
from mailwright.audience.importing.imports import Imports
from mailwright.audience.importing.plan import ImportOptions
from mailwright.audience.legal_basis import LegalBasis, LegalBasisRecord, legal_basis_record
from mailwright.audience.list_removal import ListInUse, ListRemoval
from mailwright.audience.lists import GENERAL
from mailwright.audience.segments import audience, audience_query
from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.outbox.audit_log import list_entries
from mailwright.sources.campaigns.checks import require_existing
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts
from tests.builders import DEFAULT_TENANT, Bench, a_contact, a_message, a_subscriber, suppress
from tests.campaigns import OPERATOR, CampaignHarness, a_definition, a_list

ADA, BOB, CLEO = "ada@example.com", "bob@example.com", "cleo@example.com"
EVERYONE = {"status": "active"}


@pytest.fixture
def statuses(database: Database, clock: ManualClock) -> ContactStatusService:
    return ContactStatusService(database, clock)


async def reached(
    database: Database, clock: ManualClock, *lists: str, filter_: dict[str, Any] | None = None
) -> list[str]:
    """Return the audience, and check that both queries agree."""
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


# Who is excluded, and why.


async def test_audience_step_counts_and_lists_exclusions_by_reason(
    database: Database, clock: ManualClock, statuses: ContactStatusService
) -> None:
    await a_list(database, "news")
    for name in ("stays", "left", "left-all", "bounced", "held"):
        await a_subscriber(database, f"{name}@example.com", "news")
    await a_contact(database, "receipts@example.com")
    await statuses.unsubscribe_by_link(DEFAULT_TENANT, "left@example.com", "news", source="link")
    await statuses.unsubscribe_by_link(DEFAULT_TENANT, "left-all@example.com", source="link")
    await statuses.bounce(DEFAULT_TENANT, "bounced@example.com", source="ses")
    await suppress(database, "held@example.com", list_key="news")
    everyone = NamedAudience(DEFAULT_TENANT, (), {"domain": "example.com"})
    of_list = NamedAudience(DEFAULT_TENANT, ("news",))
    async with database.read() as tx:
        by_filter = await count_excluded(tx, everyone, clock.now())
        by_list = await count_excluded(tx, of_list, clock.now())
        first = await list_excluded(tx, everyone, clock.now(), limit=2)
        rest = await list_excluded(tx, everyone, clock.now(), limit=9, after=first[-1].key)
        left = await list_excluded(tx, everyone, clock.now(), limit=9, reason=Exclusion.UNSUBSCRIBED)
    expected = {Exclusion.BOUNCED: 1, Exclusion.UNSUBSCRIBED: 2, Exclusion.SUPPRESSED: 1}
    assert by_list == expected
    assert by_filter == {**expected, Exclusion.NOT_SUBSCRIBED: 1}
    assert [each.email for each in left] == ["left@example.com", "left-all@example.com"]
    assert len(first + rest) == sum(by_filter.values())
    assert rest[-1].email == "receipts@example.com"
    [held] = [each for each in first + rest if each.reason is Exclusion.SUPPRESSED]
    assert exclusion_text(held) == "suppressed for list news since 1970-01-01: unsubscribed"


async def test_audience_and_exclusions_are_everyone_named(
    database: Database, clock: ManualClock, statuses: ContactStatusService
) -> None:
    """After any events, a contact is either in the audience or excluded for exactly one reason."""
    chance = random.Random(20_270_115)
    keys = ("news", "offers", GENERAL)
    for key in keys[:2]:
        await a_list(database, key)
    for number in range(60):
        email = f"person{number:02}@example.com"
        await a_contact(database, email, legal_basis=chance.choice([None, None, "contract"]))
        for key in chance.sample(keys, chance.randrange(4)):
            await statuses.subscribe(DEFAULT_TENANT, email, key, source="test")
        for key in chance.sample(keys, chance.choice([0, 0, 0, 1, 2])):
            await statuses.unsubscribe(DEFAULT_TENANT, email, key, source="test")
        if chance.random() < 0.1:
            await statuses.bounce(DEFAULT_TENANT, email, source="ses")
        if chance.random() < 0.1:
            await suppress(database, email, list_key=f"law-{number}")
    for named_lists in ((), ("news",), ("news", "offers"), ("news", GENERAL), (GENERAL,)):
        sent = await reached(database, clock, *named_lists)
        named = NamedAudience(DEFAULT_TENANT, named_lists, {"domain": "example.com"})
        async with database.read() as tx:
            out = await list_excluded(tx, named, clock.now(), limit=100)
            counts = await count_excluded(tx, named, clock.now())
        assert sorted([*sent, *(each.email for each in out)]) == [f"person{n:02}@example.com" for n in range(60)]
        assert sum(counts.values()) == len(out)


# Lists.


async def test_deleted_list_keeps_unsubscribes_and_ends_subscriptions(
    database: Database, clock: ManualClock, statuses: ContactStatusService
) -> None:
    await a_list(database, "news")
    for email in (ADA, BOB):
        await a_subscriber(database, email, "news")
    await statuses.unsubscribe_by_link(DEFAULT_TENANT, BOB, "news", source="link")
    await ListRemoval(database, clock).delete(DEFAULT_TENANT, "news", actor="ann")
    assert await reached(database, clock) == []
    with pytest.raises(NotFound):
        await ListRemoval(database, clock).delete(DEFAULT_TENANT, "news", actor="ann")
    with pytest.raises(NotPossibleNow):
        await ListRemoval(database, clock).delete(DEFAULT_TENANT, GENERAL, actor="ann")
    await a_list(database, "news")
    await statuses.subscribe(DEFAULT_TENANT, ADA, "news", source="test")
    assert await reached(database, clock, "news") == [ADA]


async def test_contacts_who_never_were_on_the_lists_are_counted(
    database: Database, clock: ManualClock, statuses: ContactStatusService
) -> None:
    await a_list(database, "news")
    await a_subscriber(database, ADA, "news")
    await a_subscriber(database, BOB, "news")
    await statuses.unsubscribe_by_link(DEFAULT_TENANT, BOB, "news", source="link")
    await a_contact(database, CLEO)
    async with database.read() as tx:
        assert await count_not_on_lists(tx, NamedAudience(DEFAULT_TENANT, ["news"])) == 1
        assert await count_not_on_lists(tx, NamedAudience(DEFAULT_TENANT, ["news"], EVERYONE)) == 0
        assert await count_not_on_lists(tx, NamedAudience(DEFAULT_TENANT, [], EVERYONE)) == 0


async def test_opt_out_is_found_for_the_lists_it_concerns(
    database: Database, clock: ManualClock, statuses: ContactStatusService
) -> None:
    for list_key in ("news", "offers"):
        await a_list(database, list_key)
    await a_subscriber(database, ADA, "news")
    await statuses.subscribe(DEFAULT_TENANT, ADA, "offers", source="test")
    await a_subscriber(database, BOB, "news")
    await suppress(database, BOB, list_key=GENERAL)
    await statuses.unsubscribe_by_link(DEFAULT_TENANT, ADA, "news", source="link")
    async with database.read() as tx:
        assert await find_opt_out(tx, DEFAULT_TENANT, ADA, "news") is Exclusion.UNSUBSCRIBED
        assert await find_opt_out(tx, DEFAULT_TENANT, ADA, "offers") is None
        assert await find_opt_out(tx, DEFAULT_TENANT, BOB, "offers") is Exclusion.UNSUBSCRIBED
        assert await find_opt_out(tx, DEFAULT_TENANT, CLEO, "news") is None


async def test_list_of_a_running_campaign_is_not_deleted(bench: Bench) -> None:
    desk = CampaignHarness(bench)
    await desk.start(2)
    with pytest.raises(ListInUse, match="the queued campaign News of January"):
        await ListRemoval(bench.database, bench.clock).delete(DEFAULT_TENANT, "news", actor="ann")


async def test_unknown_list_or_segment_is_refused_before_creation(database: Database) -> None:
    for wrong, field in (({"lists": ["nowhere"]}, "lists"), ({"lists": [GENERAL], "segment": "none"}, "segment")):
        with pytest.raises(InvalidInput, match="Create it first") as refused:
            await require_existing(database, DEFAULT_TENANT, a_definition(**wrong))
        assert refused.value.field == field
    await require_existing(database, DEFAULT_TENANT, a_definition(lists=[GENERAL]))


# Names of attributes.


async def test_attribute_in_another_case_is_reported_with_the_existing_name(
    database: Database, clock: ManualClock
) -> None:
    await a_subscriber(database, ADA, attributes='{"plan": "pro"}')
    filter_ = {"any": [{"attribute": "Plan", "is": "pro"}, {"not": {"attribute": "city", "exists": False}}]}
    async with database.read() as tx:
        assert await find_case_mistakes(tx, DEFAULT_TENANT, filter_) == {"Plan": "plan"}
        assert await find_case_mistakes(tx, DEFAULT_TENANT, {"attribute": "plan", "is": "pro"}) == {}
