"""Contact status, subscriptions and suppressions, on both engines."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import select

from mailwright.audience import contacts, lists, suppressions
from mailwright.audience.lists import GENERAL, ListExists, UnknownList
from mailwright.audience.status import (
    ContactStatus,
    ContactStatusService,
    ListPreference,
    StatusFact,
    apply_facts,
    bounce_fact,
    complaint_fact,
    unsubscribe_fact,
)
from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.outbox.accept import accept
from mailwright.storage.database import Database
from mailwright.storage.tables import subscriptions
from tests.builders import Attempt, a_message, a_newsletter, a_settler, an_acceptor, claims_of

ADA = "ada@example.com"
NEWS = "news"


@pytest.fixture
async def statuses(database: Database, clock: ManualClock) -> ContactStatusService:
    for key in (NEWS, "tips"):
        await lists.create(database, clock, 1, key, name=key.title(), is_public=key == NEWS)
    return ContactStatusService(database, clock)


async def scopes(database: Database, email: str = ADA) -> dict[str, str]:
    async with database.read() as tx:
        return {entry.list_key: entry.reason for entry in await suppressions.list_for_address(tx, 1, email)}


async def memberships(database: Database) -> list[tuple[str, int | None, int | None]]:
    async with database.read() as tx:
        rows = await tx.execute(select(subscriptions).order_by(subscriptions.c.list_key))
    return [(row.list_key, row.subscribed_at, row.unsubscribed_at) for row in rows]


async def status(database: Database, email: str = ADA) -> str:
    return (await contacts.find_by_email(database, 1, email)).status


# Unsubscribe and resubscribe.


@pytest.mark.promise("leave-list")
async def test_unsubscribe_from_one_list_keeps_the_others(
    database: Database, clock: ManualClock, statuses: ContactStatusService
) -> None:
    await statuses.subscribe(1, "Ada@Example.com", NEWS, source="form")
    joined = clock.now()
    for _ in range(2):  # A link may be followed twice.
        clock.advance(1_000)
        await statuses.unsubscribe_by_link(1, ADA, NEWS, source="link")
    assert await memberships(database) == [(NEWS, joined, joined + 1_000)]
    assert await scopes(database) == {NEWS: "unsubscribed"}
    assert await status(database) == "active"
    assert await suppressions.is_suppressed(database, 1, ADA, NEWS)
    assert not await suppressions.is_suppressed(database, 1, ADA, "tips")
    assert not await suppressions.is_suppressed(database, 1, ADA)


@pytest.mark.promise("leave-list")
async def test_unsubscribe_from_all_stops_bulk_email(
    database: Database, clock: ManualClock, statuses: ContactStatusService
) -> None:
    await statuses.subscribe(1, ADA, NEWS, source="form")
    await statuses.unsubscribe_by_link(1, ADA, source="link")
    assert (await status(database), await scopes(database)) == ("unsubscribed", {"general": "unsubscribed"})
    for list_key, expected in ((NEWS, True), ("tips", True), ("general", True), (None, False)):
        assert await suppressions.is_suppressed(database, 1, ADA, list_key) is expected
    result = await contacts.find_by_email(database, 1, ADA)
    assert (result.status_updated_at, result.status_source) == (clock.now(), "link")


@pytest.mark.parametrize("list_key", [NEWS, "general"])
@pytest.mark.parametrize("was_on_it", [True, False])
async def test_resubscribe_undoes_exactly_the_unsubscribe(
    database: Database, clock: ManualClock, statuses: ContactStatusService, list_key: str, was_on_it: bool
) -> None:
    if was_on_it:
        await statuses.subscribe(1, ADA, NEWS, source="form")
    await statuses.unsubscribe_by_link(1, ADA, "tips", source="link")
    before = (await memberships(database), await scopes(database))
    await statuses.unsubscribe_by_link(1, ADA, list_key, source="link")
    clock.advance(1_000)
    for _ in range(2):
        await statuses.resubscribe_by_link(1, ADA, list_key, source="link")
        assert (await memberships(database), await scopes(database)) == before
        assert await status(database) == "active"


async def test_resubscribe_keeps_other_suppressions(
    database: Database, clock: ManualClock, statuses: ContactStatusService
) -> None:
    await statuses.bounce(1, "bounced@example.com", source="ses", bounce_type="Permanent", bounce_subtype="General")
    await statuses.complain(1, "complained@example.com", source="ses")
    await suppressions.add(database, clock, 1, "told@example.com", reason="by law", source="cli", list_key="general")
    for email in ("bounced@example.com", "complained@example.com", "told@example.com"):
        for list_key in ("general", NEWS):
            await statuses.unsubscribe_by_link(1, email, list_key, source="link")
            await statuses.resubscribe_by_link(1, email, list_key, source="link")
            await statuses.subscribe(1, email, list_key, source="form")
    assert await scopes(database, "bounced@example.com") == {"*": "bounce"}
    assert await scopes(database, "complained@example.com") == {"*": "complaint"}
    assert await scopes(database, "told@example.com") == {"general": "by law"}
    assert await status(database, "bounced@example.com") == "bounced"
    assert await status(database, "complained@example.com") == "unsubscribed"


async def test_only_an_operator_reactivates_a_bounced_contact(
    database: Database, clock: ManualClock, statuses: ContactStatusService
) -> None:
    await statuses.bounce(1, ADA, source="ses", bounce_type="Permanent")
    await statuses.unsubscribe_by_link(1, ADA, NEWS, source="link")
    await statuses.activate(1, ADA, source="cli")
    result = await contacts.find_by_email(database, 1, ADA)
    assert (result.status, result.bounce_type, await scopes(database)) == ("active", None, {NEWS: "unsubscribed"})
    with pytest.raises(NotFound):
        await statuses.activate(1, "nobody@example.com", source="cli")


async def test_unknown_address_becomes_a_contact_by_unsubscribing(
    database: Database, statuses: ContactStatusService
) -> None:
    await statuses.unsubscribe_by_link(1, "Stranger@Example.com", source="link")
    assert await status(database, "stranger@example.com") == "unsubscribed"
    with pytest.raises(NotFound):
        await contacts.find_by_email(database, 2, "stranger@example.com")
    with pytest.raises(InvalidInput):
        await statuses.unsubscribe_by_link(1, "no address", source="link")


async def test_preferences_show_what_a_contact_can_change(database: Database, statuses: ContactStatusService) -> None:
    await statuses.subscribe(1, ADA, "tips", source="form")
    await statuses.unsubscribe_by_link(1, ADA, NEWS, source="link")
    result = await statuses.load_preferences(1, "ADA@example.com")
    assert result.lists == (
        ListPreference(NEWS, "News", None, is_public=True, is_subscribed=False, has_unsubscribed=True),
        ListPreference("tips", "Tips", None, is_public=False, is_subscribed=True, has_unsubscribed=False),
    )
    assert (result.status, GENERAL in result.scopes) == (ContactStatus.ACTIVE, False)
    stranger = await statuses.load_preferences(1, "stranger@example.com")
    assert [(each.list_key, each.is_subscribed) for each in stranger.lists] == [(NEWS, False)]
    await statuses.unsubscribe_by_link(1, ADA, source="link")
    assert GENERAL in (await statuses.load_preferences(1, ADA)).scopes


async def test_list_is_created_once_and_must_exist(
    database: Database, clock: ManualClock, statuses: ContactStatusService
) -> None:
    for taken in (NEWS, "general"):
        with pytest.raises(ListExists):
            await lists.create(database, clock, 1, taken)
    for key in ("", "News", "-news", "a b", "n" * 64, "*", "ü", "news\n", "a\0"):
        with pytest.raises(InvalidInput):
            await lists.create(database, clock, 1, key)
        with pytest.raises(UnknownList):
            await statuses.subscribe(1, ADA, key, source="form")
    with pytest.raises(UnknownList, match="There is no list 'other'"):
        await statuses.unsubscribe(1, ADA, "other", source="form")
    with pytest.raises(UnknownList):
        await statuses.subscribe(2, ADA, NEWS, source="form")
    assert [entry.list_key for entry in await lists.list_all(database, 1)] == [NEWS, "tips"]


# Contact status.


@pytest.mark.promise("bounce-hard-or-soft")
@pytest.mark.parametrize("now_is", list(ContactStatus))
@pytest.mark.parametrize("incoming", [ContactStatus.UNSUBSCRIBED, ContactStatus.BOUNCED])
async def test_lower_status_never_replaces_a_higher_one(
    database: Database,
    clock: ManualClock,
    statuses: ContactStatusService,
    now_is: ContactStatus,
    incoming: ContactStatus,
) -> None:
    tell: dict[ContactStatus, Any] = {
        ContactStatus.ACTIVE: lambda: statuses.subscribe(1, ADA, NEWS, source="first"),
        ContactStatus.UNSUBSCRIBED: lambda: statuses.unsubscribe_by_link(1, ADA, source="second"),
        ContactStatus.BOUNCED: lambda: statuses.bounce(1, ADA, source="second", bounce_type="Permanent"),
    }
    await tell[now_is]()
    clock.advance(1_000)
    await tell[incoming]()
    result = await contacts.find_by_email(database, 1, ADA)
    weights = {ContactStatus.ACTIVE: 0, ContactStatus.UNSUBSCRIBED: 1, ContactStatus.BOUNCED: 2}
    wins = weights[incoming] >= weights[now_is]
    assert result.status == (incoming if wins else now_is)
    assert result.status_updated_at == (clock.now() if wins else clock.now() - 1_000)
    assert result.bounce_type == ("Permanent" if result.status == "bounced" else None)


async def test_concurrent_writers_end_with_the_highest_status(database: Database, clock: ManualClock) -> None:
    contacts_ = [f"reader{n}@example.com" for n in range(8)]

    def facts(email: str, number: int) -> list[StatusFact]:
        at = clock.now() + number
        match number % 3:
            case 0:
                return [unsubscribe_fact(1, email, "general", source="link", at=at)]
            case 1:
                return [complaint_fact(1, email, source="ses", at=at)]
            case _:
                return [bounce_fact(1, email, source="ses", at=at, bounce_type=f"type {number}")]

    async def write(number: int) -> None:
        # Each in another order: a deadlock would end this test with an error.
        mine = [fact for email in (contacts_ if number % 2 else contacts_[::-1]) for fact in facts(email, number)]
        await database.transact(lambda tx: apply_facts(tx, mine, clock.now()))

    await asyncio.gather(*(write(number) for number in range(12)))
    for email in contacts_:
        result = await contacts.find_by_email(database, 1, email)
        assert (result.status, result.bounce_type, result.status_updated_at) == ("bounced", "type 11", clock.now() + 11)
        assert await scopes(database, email) == {"*": "complaint", "general": "unsubscribed"}


# Suppressions at claim and at the begin of an attempt.


SCOPES = ["*", "general", NEWS, "tips"]


@pytest.mark.parametrize("mail_of", [None, "general", NEWS])
@pytest.mark.parametrize("late", [False, True])
async def test_each_scope_stops_its_messages_at_claim_and_attempt(
    database: Database, clock: ManualClock, mail_of: str | None, late: bool
) -> None:
    browsers = {scope: f"reader-{index}@example.com" for index, scope in enumerate(SCOPES)}
    messages_ = [
        a_newsletter(to=email, list_key=mail_of) if mail_of else a_message(to=email) for email in browsers.values()
    ]
    await an_acceptor(database, clock).accept(messages_)
    claimed = await claims_of(database, clock).claim(10) if late else []
    async with database.write() as tx:
        for scope, email in browsers.items():
            await suppressions.add_all(
                tx, 1, [email], reason=f"scope {scope}", source="test", now=clock.now(), list_key=scope
            )
    stopped = {"*"} if mail_of is None else {"*", "general", mail_of}
    if late:
        started = await a_settler(database, clock).exchange([], claimed)
        sent = {each.to_email for each in claimed if each.message_key in started.message_keys}
        assert sent == {browsers[scope] for scope in SCOPES if scope not in stopped}
    else:
        result = {each.to_email: each.suppressed_because for each in await claims_of(database, clock).claim(10)}
        expected = {email: f"scope {scope}" if scope in stopped else None for scope, email in browsers.items()}
        assert result == expected


async def test_widest_of_several_suppressions_is_reported(database: Database, clock: ManualClock) -> None:
    await an_acceptor(database, clock).accept([a_newsletter(to=ADA, list_key=NEWS)])
    async with database.write() as tx:
        for scope in reversed(SCOPES):
            await suppressions.add_all(tx, 1, [ADA], reason=scope, source="test", now=0, list_key=scope)
    [claimed] = await claims_of(database, clock).claim(10)
    assert (claimed.suppressed_because, claimed.list_key, claimed.is_bulk) == ("*", NEWS, True)


@pytest.mark.promise("suppression-wins")
@pytest.mark.parametrize("scope", ["*", "general"])
async def test_copy_to_unsubscribed_contact_is_not_sent(database: Database, clock: ManualClock, scope: str) -> None:
    await an_acceptor(database, clock).accept([a_message(to=ADA), a_message(to="bob@example.com")])
    claimed = await claims_of(database, clock).claim(2)
    copies = {ADA: ("cleo@example.com",), "bob@example.com": ("dan@example.com",)}
    attempts = [Attempt(each, copies=copies[each.to_email]) for each in claimed]
    async with database.write() as tx:
        emails = ["cleo@example.com"]
        await suppressions.add_all(tx, 1, emails, reason="left", source="test", now=0, list_key=scope)
    begun = await a_settler(database, clock).exchange([], attempts)
    may_go = {each.to_email for each in claimed if each.message_key in begun.message_keys}
    assert may_go == ({"bob@example.com"} if scope == "*" else {ADA, "bob@example.com"})


async def test_bulk_message_without_list_belongs_to_general(database: Database, clock: ManualClock) -> None:
    await database.transact(lambda tx: accept(tx, [a_newsletter(to=ADA)], clock.now()))
    [claimed] = await claims_of(database, clock).claim(1)
    assert (claimed.list_key, claimed.is_bulk) == ("general", True)


async def test_reports_never_replace_an_operators_suppression(database: Database, clock: ManualClock) -> None:
    await suppressions.add(database, clock, 1, ADA, reason="asked by phone", source="cli")
    earlier = [bounce_fact(1, ADA, source="ses", at=clock.now() - 1_000), complaint_fact(1, ADA, source="ses", at=0)]
    await database.transact(lambda tx: apply_facts(tx, earlier, clock.now()))
    assert await scopes(database) == {"*": "asked by phone"}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), "together"])
async def test_complaint_replaces_earlier_bounces_but_no_unsubscribe(
    database: Database, clock: ManualClock, order: tuple[int, ...] | str
) -> None:
    now = clock.now()
    facts = [
        bounce_fact(1, ADA, source="ses", at=now),
        complaint_fact(1, ADA, source="ses", at=now + 1),
        bounce_fact(1, ADA, source="ses", at=now + 2),
    ]
    await suppressions.add(database, clock, 1, "bob@example.com", reason="unsubscribed", source="api")
    facts += [complaint_fact(1, "bob@example.com", source="ses", at=now - 1)]
    groups = [facts] if isinstance(order, str) else [[facts[each]] for each in order] + [facts[3:]]
    for group in groups:
        await database.transact(lambda tx, group=group: apply_facts(tx, group, now + 2))
    [entry] = [each for each in await suppressions.list_page(database, 1, limit=9) if each.email == ADA]
    assert (entry.reason, entry.created_at) == ("complaint", now + 1)
    assert await scopes(database, "bob@example.com") == {"*": "unsubscribed"}


async def test_added_reason_replaces_only_a_bounce(database: Database, clock: ManualClock) -> None:
    for reason, expected in (("bounce", "bounce"), ("asked", "asked"), ("bounce", "asked"), ("complaint", "asked")):
        await suppressions.add(database, clock, 1, ADA, reason=reason, source="api")
        assert await scopes(database) == {"*": expected}
