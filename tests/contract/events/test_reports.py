"""Reports count once, find their message, resolve messages in doubt and change the contact."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select, update
from structlog.testing import capture_logs

from mailwright.audience import contacts, suppressions
from mailwright.audience.status import ContactStatusService
from mailwright.domain.bounce import BounceKind
from mailwright.domain.clock import DAY, MINUTE, ManualClock
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.domain.message import NewMessage
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType, OnDoubt, Status
from mailwright.events.rejections import SmtpRejections
from mailwright.events.reports import LARGEST_COMMIT, ReportCounts, Reports, SoftBounces, forget
from mailwright.ops.metrics import REGISTRY
from mailwright.outbox.audit import audit
from mailwright.outbox.in_doubt import InDoubtHandler
from mailwright.storage.database import Database
from mailwright.storage.tables import deliveries, events, reports
from tests.builders import (
    LOCK_TTL,
    REFUSAL,
    SENT,
    Bench,
    ClaimSettling,
    a_message,
    a_result,
    a_settler,
    a_tenant,
    an_acceptor,
    claims_of,
    record_of,
    steps,
    the_event,
)
from tests.standins.provider import ScriptedProvider

GRACE = 10 * MINUTE


async def an_attempt(database: Database, clock: ManualClock, message: NewMessage) -> Any:
    """A message whose attempt has begun and has no response."""
    await an_acceptor(database, clock).accept([message])
    [claimed] = await claims_of(database, clock).claim(1)
    await a_settler(database, clock).exchange([], [claimed])
    return claimed


async def a_doubt(database: Database, clock: ManualClock, on_doubt: OnDoubt = OnDoubt.HOLD) -> str:
    """A message whose worker died during the attempt."""
    message = a_message(on_doubt=on_doubt)
    await an_attempt(database, clock, message)
    clock.advance(LOCK_TTL)
    assert await InDoubtHandler(database, clock, grace=GRACE).mark_lost_attempts() == 1
    return message.outbox_id


async def a_sent_message(
    database: Database, clock: ManualClock, provider: str = "ses", provider_message_id: str = "id-1", **changes: Any
) -> NewMessage:
    message = a_message(**changes)
    claimed = await an_attempt(database, clock, message)
    result = replace(SENT, provider=provider, provider_message_id=provider_message_id)
    await a_settler(database, clock).exchange([a_result(claimed, result, clock.now())], [])
    return message


def a_report(clock: ManualClock, type_: EventType = EventType.DELIVERED, **changes: Any) -> Report:
    defaults: dict[str, Any] = {"key": f"report-{type_}", "source": "ses", "type": type_, "at": clock.now()}
    return Report(**{**defaults, **changes})


def a_bounce(clock: ManualClock, message: NewMessage, **changes: Any) -> Report:
    defaults: dict[str, Any] = {
        "outbox_id": message.outbox_id,
        "recipient": message.to_email,
        "verdict": ContactVerdict.HARD_BOUNCE,
        "bounce_type": "Permanent",
        "bounce_subtype": "General",
    }
    return a_report(clock, EventType.BOUNCED, **{**defaults, **changes})


async def state(database: Database) -> tuple[str, list[str]]:
    async with database.read() as tx:
        [row] = await tx.execute(select(deliveries.c.status))
        types = await tx.execute(select(events.c.type).order_by(events.c.id))
    return row.status, [each.type for each in types]


async def contact_status(database: Database, email: str, tenant_id: int = 1) -> str:
    return (await contacts.find_by_email(database, tenant_id, email)).status


async def scopes(database: Database, email: str, tenant_id: int = 1) -> dict[str, str]:
    async with database.read() as tx:
        return {entry.list_key: entry.reason for entry in await suppressions.list_for_address(tx, tenant_id, email)}


# Messages in doubt.


@pytest.mark.promise("doubt-report-settles")
@pytest.mark.parametrize("type_", [EventType.DELIVERED, EventType.BOUNCED, EventType.COMPLAINED, EventType.ACCEPTED])
async def test_report_proves_that_message_was_sent(database: Database, clock: ManualClock, type_: EventType) -> None:
    outbox_id = await a_doubt(database, clock)
    report = a_report(clock, type_, outbox_id=outbox_id, provider_message_id="queue-1", recipient="ada@example.com")
    assert await Reports(database, clock).receive([report]) == ReportCounts(new=1)
    assert await state(database) == (
        Status.SENT,
        ["RECEIVED", "VALIDATED", "SENT_ATTEMPT", "IN_DOUBT", type_, "SENT"],
    )
    found = await audit(database)
    assert found.ok
    assert found.sent == 1
    assert (await record_of(database, outbox_id)).summary.provider_message_id == "queue-1"


@pytest.mark.promise("doubt-report-settles")
@pytest.mark.parametrize("is_claimed", [False, True])
async def test_report_prevents_pending_resend(database: Database, clock: ManualClock, is_claimed: bool) -> None:
    outbox_id = await a_doubt(database, clock, OnDoubt.RESEND)
    clock.advance(GRACE)
    assert await InDoubtHandler(database, clock, grace=GRACE).decide_due() == 1
    held = await claims_of(database, clock, "heir").claim(1) if is_claimed else []
    assert len(held) == is_claimed
    await Reports(database, clock).receive([a_report(clock, outbox_id=outbox_id)])
    assert (await a_settler(database, clock).exchange([], held)).message_keys == frozenset()
    await claims_of(database, clock, "heir").release(held)
    assert await claims_of(database, clock).claim(1) == []
    assert (await state(database))[0] == Status.SENT


@pytest.mark.promise("doubt-report-settles")
@pytest.mark.parametrize("on_doubt", list(OnDoubt))
async def test_report_before_doubt_still_settles_it(database: Database, clock: ManualClock, on_doubt: OnDoubt) -> None:
    message = a_message(on_doubt=on_doubt)
    await an_attempt(database, clock, message)
    await Reports(database, clock).receive([a_report(clock, outbox_id=message.outbox_id)])
    assert (await state(database))[0] == Status.SENT_ATTEMPT  # its worker may still record the result
    clock.advance(LOCK_TTL)
    doubts = InDoubtHandler(database, clock, grace=0)
    await doubts.mark_lost_attempts()
    assert await doubts.decide_due() == 1
    assert (await state(database))[0] == Status.SENT
    assert await claims_of(database, clock).claim(1) == []
    assert (await audit(database)).ok


async def test_match_by_address_is_no_proof(database: Database, clock: ManualClock) -> None:
    """The report may be about an older message to the same recipient, so this one stays in doubt."""
    outbox_id = await a_doubt(database, clock)
    async with database.write() as tx:
        await tx.execute(update(deliveries).values(provider="sendgrid"))
    email = (await record_of(database, outbox_id)).summary.to_email
    await Reports(database, clock).receive([a_report(clock, source="sendgrid", recipient=email)], by_address=True)
    status, story = await state(database)
    assert (status, story[-1]) == (Status.IN_DOUBT, "delivered")


async def test_unsent_message_reverts_to_pending_despite_report(database: Database, clock: ManualClock) -> None:
    await an_acceptor(database, clock).accept([a_message(on_doubt=OnDoubt.HOLD)])
    frozen = claims_of(database, clock)
    claimed = await frozen.claim(1)
    await a_settler(database, clock).exchange([], claimed)
    clock.advance(LOCK_TTL)
    await InDoubtHandler(database, clock, grace=0).mark_lost_attempts()
    await frozen.release(claimed)
    assert (await state(database))[0] == Status.PENDING
    again = await claims_of(database, clock, "heir").claim(1)
    assert [(each.claims, each.attempts) for each in again] == [(1, 0)]
    assert (await audit(database)).ok


# Repeated reports.


@pytest.mark.promise("report-once")
async def test_repeated_report_changes_nothing(database: Database, clock: ManualClock) -> None:
    message = await a_sent_message(database, clock)
    recorder = Reports(database, clock)
    report = a_bounce(clock, message)
    assert await recorder.receive([report, report]) == ReportCounts(new=1, repeated=1)
    clock.advance(DAY)
    assert await recorder.receive([report]) == ReportCounts(repeated=1)
    assert steps(await record_of(database, message.outbox_id)).count("bounce") == 1
    await suppressions.remove(database, 1, message.to_email)  # an operator lifts the suppression
    await recorder.receive([report])
    assert await scopes(database, message.to_email) == {}


@pytest.mark.promise("report-once")
async def test_concurrent_identical_reports_count_once(database: Database, clock: ManualClock) -> None:
    messages = [await a_sent_message(database, clock, provider_message_id=f"id-{n}") for n in range(6)]
    reports = [a_bounce(clock, message, key=f"k{n}") for n, message in enumerate(messages)]
    orders = [reports, reports[::-1], reports[3:] + reports[:3], reports]
    answers = await asyncio.gather(*(Reports(database, clock).receive(order) for order in orders))
    assert sum(answer.new for answer in answers) == 6
    assert sum(answer.repeated for answer in answers) == 18
    for message in messages:
        assert steps(await record_of(database, message.outbox_id)).count("bounce") == 1


@pytest.mark.promise("report-once")
async def test_concurrent_callers_share_commits(database: Database, clock: ManualClock) -> None:
    message = await a_sent_message(database, clock)
    recorder = Reports(database, clock)
    reports = [a_report(clock, EventType.OPENED, key=f"k{n % 30}", outbox_id=message.outbox_id) for n in range(60)]
    answers = await asyncio.gather(*(recorder.receive([report]) for report in reports))
    await recorder.close()
    assert [sum(answer.new for answer in answers), sum(answer.repeated for answer in answers)] == [30, 30]


@pytest.mark.promise("report-once")
async def test_large_call_is_split_into_commits(database: Database, clock: ManualClock) -> None:
    message = await a_sent_message(database, clock)
    count = LARGEST_COMMIT + 10
    reports = [a_report(clock, EventType.OPENED, key=f"k{n}", outbox_id=message.outbox_id) for n in range(count)]
    assert await Reports(database, clock).receive(reports) == ReportCounts(new=count)


async def test_only_reportable_event_types_are_accepted(database: Database, clock: ManualClock) -> None:
    with pytest.raises(InvalidInput):
        await Reports(database, clock).receive([a_report(clock, EventType.SENT)])
    assert await Reports(database, clock).receive([]) == ReportCounts()


# Matching a report with its message.


async def test_most_reliable_match_wins(database: Database, clock: ManualClock) -> None:
    ada = "ada@example.com"
    first = await a_sent_message(database, clock, "sendgrid", "x-1", to=ada)
    clock.advance(1_000)
    second = await a_sent_message(database, clock, "sendgrid", "x-2", to=ada)
    clock.advance(1_000)
    other = await a_sent_message(database, clock, "ses", "x-3", to=ada)
    recorder = Reports(database, clock)
    by = {"source": "sendgrid", "recipient": "Ada@Example.com"}
    reports = [
        a_report(clock, key="by id", outbox_id=first.outbox_id, provider_message_id="x-2", **by),
        a_report(clock, EventType.OPENED, key="by provider", provider_message_id="x-1", **by),
        a_report(clock, EventType.CLICKED, key="by recipient", **by),
        a_report(clock, EventType.DEFERRED, key="of another provider", provider_message_id="x-3", **by),
        a_report(clock, EventType.OPENED, key="of others", outbox_id="0190a000-0000-7000-8000-000000000000", **by),
        a_report(clock, EventType.OPENED, key="of nobody", source="sendgrid", recipient="who@example.com"),
        a_report(clock, EventType.OPENED, key="nameless", source="sendgrid"),
    ]
    assert await recorder.receive(reports, by_address=True) == ReportCounts(new=4, unknown=3)
    assert steps(await record_of(database, first.outbox_id))[4:] == ["delivered", "open"]
    assert steps(await record_of(database, second.outbox_id))[4:] == ["click", "deferred"]
    assert steps(await record_of(database, other.outbox_id))[4:] == []


async def test_bounce_by_address_ignores_later_messages(database: Database, clock: ManualClock) -> None:
    first = await a_sent_message(database, clock, "sendgrid", "x-1", to="ada@example.com")
    clock.advance(MINUTE)
    report = a_report(clock, EventType.BOUNCED, source="sendgrid", recipient="ada@example.com")
    clock.advance(MINUTE)
    await a_sent_message(database, clock, "sendgrid", "x-2", to="ada@example.com")
    await Reports(database, clock).receive([report], by_address=True)
    assert steps(await record_of(database, first.outbox_id))[-1] == "bounce"


async def test_shared_provider_id_matches_own_recipient(database: Database, clock: ManualClock) -> None:
    emails = [await a_sent_message(database, clock, "sendgrid", "x-1", to=f"r{n}@example.com") for n in range(3)]
    report = a_report(clock, source="sendgrid", provider_message_id="x-1", recipient="R1@example.com")
    await Reports(database, clock).receive([report])
    assert [len(steps(await record_of(database, message.outbox_id))) for message in emails] == [4, 5, 4]


async def test_report_changes_only_its_tenant(database: Database, clock: ManualClock) -> None:
    other = await a_tenant(database, "other")
    ada = "ada@example.com"
    await a_sent_message(database, clock, provider_message_id="id-1", to=ada)
    theirs = await a_sent_message(database, clock, provider_message_id="id-2", to=ada, tenant_id=other)
    await Reports(database, clock).receive([a_bounce(clock, theirs)])
    assert [await contact_status(database, ada, tenant) for tenant in (1, other)] == ["active", "bounced"]
    assert [await scopes(database, ada, tenant) for tenant in (1, other)] == [{}, {"*": "bounce"}]


@pytest.mark.parametrize("by_address", [False, True])
async def test_report_without_message_changes_nothing(database: Database, clock: ManualClock, by_address: bool) -> None:
    """Not even with a single tenant and from a trusted source."""
    lost = {"recipient": "ada@example.com", "verdict": ContactVerdict.HARD_BOUNCE}
    reports = [a_report(clock, EventType.BOUNCED, key="k1", **lost)]
    with capture_logs() as lines:
        assert await Reports(database, clock).receive(reports, by_address=by_address) == ReportCounts(unknown=1)
    assert [line["event"] for line in lines] == ["report_without_message"]
    assert "ada@" not in str(lines)
    assert await scopes(database, "ada@example.com") == {}
    with pytest.raises(NotFound):
        await contacts.find_by_email(database, 1, "ada@example.com")


async def test_match_by_address_requires_trusted_source(database: Database, clock: ManualClock) -> None:
    await a_sent_message(database, clock, to="ada@example.com")
    recorder = Reports(database, clock)
    bounce = a_report(clock, EventType.BOUNCED, recipient="ada@example.com", verdict=ContactVerdict.HARD_BOUNCE)
    # Both in one call: one must not affect the other.
    answers = await asyncio.gather(
        recorder.receive([bounce]), recorder.receive([replace(bounce, key="k2")], by_address=True)
    )
    assert answers == [ReportCounts(unknown=1), ReportCounts(new=1)]
    async with database.read() as tx:
        assert [row.key for row in await tx.execute(select(reports.c.key))] == ["ses:k2"]
    assert await scopes(database, "ada@example.com") == {"*": "bounce"}


# Timeline events.


async def test_event_keeps_text_and_masks_addresses(database: Database, clock: ManualClock) -> None:
    message = await a_sent_message(database, clock, to="ada@example.com")
    words = {"diagnosticCode": "550 <ada@example.com>: no\0 such user \ud800", "recipient": "x", "also": ["b@c.eu"]}
    report = a_bounce(clock, message, metadata=words, provider_message_id="0100@email.amazonses.com")
    await Reports(database, clock).receive([replace(report, bounce_subtype="No\0Email")])
    event = the_event(await record_of(database, message.outbox_id), EventType.BOUNCED)
    assert event.metadata == {
        "diagnosticCode": "550 <a***@e***.com>: no such user ?",
        "also": ["b***@c***.eu"],
        "providerMessageId": "0100@email.amazonses.com",
        "recipient": "a***@e***.com",
        "source": "ses",
        "bounceType": "Permanent",
        "bounceSubtype": "NoEmail",
    }


# Effects on contacts.


@pytest.mark.parametrize(
    ("type_", "verdict", "status", "expected"),
    [
        (EventType.BOUNCED, ContactVerdict.HARD_BOUNCE, "bounced", {"*": "bounce"}),
        (EventType.BOUNCED, ContactVerdict.SOFT_BOUNCE, "active", {}),
        (EventType.COMPLAINED, ContactVerdict.COMPLAINT, "unsubscribed", {"*": "complaint"}),
        (EventType.COMPLAINED, ContactVerdict.NOTHING, "active", {}),
        (EventType.UNSUBSCRIBED, ContactVerdict.UNSUBSCRIBE, "unsubscribed", {"general": "unsubscribed"}),
        (EventType.DELIVERED, ContactVerdict.NOTHING, "active", {}),
    ],
)
async def test_each_verdict_has_its_consequence(
    database: Database,
    clock: ManualClock,
    type_: EventType,
    verdict: ContactVerdict,
    status: str,
    expected: dict[str, str],
) -> None:
    message = await a_sent_message(database, clock, to="ada@example.com")
    await Reports(database, clock).receive([replace(a_bounce(clock, message), type=type_, verdict=verdict)])
    assert await contact_status(database, "ada@example.com") == status
    assert await scopes(database, "ada@example.com") == expected


async def test_only_recipients_of_the_message_are_changed(database: Database, clock: ManualClock) -> None:
    payload = {
        "to": "ada@example.com",
        "subject": "s",
        "html": "<p>h</p>",
        "cc": ["Bob@example.com"],
        "bcc": ["c@d.eu"],
    }
    message = await a_sent_message(database, clock, to="ada@example.com", payload=payload)
    recorder = Reports(database, clock)
    reports = [
        a_bounce(clock, message, key=f"k{n}", recipient=recipient)
        for n, recipient in enumerate(["bob@EXAMPLE.com", "C@d.eu", "eve@example.com", "not an address", None])
    ]
    assert await recorder.receive(reports) == ReportCounts(new=5)
    assert [await scopes(database, email) for email in ("bob@example.com", "c@d.eu")] == [{"*": "bounce"}] * 2
    assert [await scopes(database, email) for email in ("ada@example.com", "eve@example.com")] == [{}, {}]
    assert steps(await record_of(database, message.outbox_id)).count("bounce") == 5


@pytest.mark.promise("bounce-attributed")
@pytest.mark.parametrize("named", ["forwarded@elsewhere.example", "redacted", "", None])
@pytest.mark.parametrize(
    ("type_", "verdict", "reason"),
    [
        (EventType.BOUNCED, ContactVerdict.HARD_BOUNCE, "bounce"),
        (EventType.COMPLAINED, ContactVerdict.COMPLAINT, "complaint"),
    ],
)
async def test_id_decides_if_the_message_has_one_recipient(
    database: Database, clock: ManualClock, named: str | None, type_: EventType, verdict: ContactVerdict, reason: str
) -> None:
    message = await a_sent_message(database, clock, to="ada@example.com")
    report = a_report(clock, type_, outbox_id=message.outbox_id, verdict=verdict, recipient=named)
    assert await Reports(database, clock).receive([report]) == ReportCounts(new=1)
    assert await scopes(database, "ada@example.com") == {"*": reason}
    assert await scopes(database, "forwarded@elsewhere.example") == {}
    summary = (await record_of(database, message.outbox_id)).summary
    assert (summary.bounced_at is not None) is (type_ is EventType.BOUNCED)


async def test_shared_provider_id_and_foreign_address_change_nobody(database: Database, clock: ManualClock) -> None:
    for number in range(2):
        await a_sent_message(database, clock, "sendgrid", "x-1", to=f"r{number}@example.com")
    for number, named in enumerate(("eve@example.com", None)):
        known = {"source": "sendgrid", "provider_message_id": "x-1", "verdict": ContactVerdict.HARD_BOUNCE}
        report = a_report(clock, EventType.BOUNCED, key=f"k{number}", recipient=named, **known)
        await Reports(database, clock).receive([report])
    assert [await scopes(database, f"r{number}@example.com") for number in range(2)] == [{}, {}]


async def test_hidden_recipient_means_the_only_recipient(database: Database, clock: ManualClock) -> None:
    message = await a_sent_message(database, clock, to="ada@example.com")
    report = a_report(clock, EventType.COMPLAINED, outbox_id=message.outbox_id, verdict=ContactVerdict.COMPLAINT)
    await Reports(database, clock).receive([report])
    assert await scopes(database, "ada@example.com") == {"*": "complaint"}


@pytest.mark.promise("bounce-hard-or-soft")
@pytest.mark.parametrize(
    ("days", "expected"),
    [([0, 1], {}), ([0, 15, 30], {"*": "soft_bounces"}), ([0, 15, 31], {}), ([31, 0, 15, 20], {"*": "soft_bounces"})],
)
async def test_three_soft_bounces_in_thirty_days_suppress(
    database: Database, clock: ManualClock, days: Sequence[int], expected: dict[str, str]
) -> None:
    start = clock.now()
    recorder = Reports(database, clock)
    for number, day in enumerate(days):
        message = await a_sent_message(database, clock, to="ada@example.com")
        report = a_bounce(clock, message, key=f"k{number}", verdict=ContactVerdict.SOFT_BOUNCE, at=start + day * DAY)
        assert await recorder.receive([report, report]) == ReportCounts(new=1, repeated=1)
    assert await scopes(database, "ada@example.com") == expected
    assert await contact_status(database, "ada@example.com") == ("bounced" if expected else "active")


@pytest.mark.parametrize("named", ["Ada <{}>", '"Lovelace, Ada" <{}>', "<{}>", ' ООО "Ада" <{}> ', "{}"])
async def test_bounce_with_a_display_name_suppresses(database: Database, clock: ManualClock, named: str) -> None:
    message = await a_sent_message(database, clock, to="ada@example.com")
    payload = {"to": "bea@example.com", "subject": "Hello", "html": "<p>Hello</p>", "cc": ["Cy <cy@example.com>"]}
    copy = await a_sent_message(database, clock, to="bea@example.com", payload=payload)
    reports = [
        a_bounce(clock, message, recipient=named.format("Ada@Example.com")),
        a_bounce(clock, copy, key="copy", recipient=named.format("cy@example.com")),
    ]
    assert await Reports(database, clock).receive(reports) == ReportCounts(new=2)
    for email in ("ada@example.com", "cy@example.com"):
        assert await scopes(database, email) == {"*": "bounce"}
    assert await scopes(database, "bea@example.com") == {}


@pytest.mark.promise("report-once")
async def test_soft_bounce_order_does_not_matter(database: Database, clock: ManualClock) -> None:
    orders = [(0, 10, 20, 25), (25, 20, 10, 0), (20, 25, 0, 10)]
    ends = []
    for number, order in enumerate(orders):
        emails = [await a_sent_message(database, clock, to=f"reader{number}@example.com") for _ in order]
        for message, day in zip(emails, order, strict=True):
            report = a_bounce(clock, message, key=f"k{number}-{day}", verdict=ContactVerdict.SOFT_BOUNCE, at=day * DAY)
            await Reports(database, clock).receive([report])
        person = await contacts.load_details(database, 1, message.to_email)
        [entry] = person.suppressions
        ends.append((person.contact.status, person.contact.status_updated_at, entry.created_at))
    assert ends == [("bounced", 25 * DAY, 20 * DAY)] * 3


@pytest.mark.promise("bounce-hard-or-soft")
async def test_reports_about_one_message_are_one_soft_bounce(database: Database, clock: ManualClock) -> None:
    emails = [await a_sent_message(database, clock, to="ada@example.com") for _ in range(3)]
    recorder = Reports(database, clock)
    for number, message in enumerate((emails[0], emails[0], emails[0], emails[1], emails[1])):
        await recorder.receive([a_bounce(clock, message, key=f"k{number}", verdict=ContactVerdict.SOFT_BOUNCE)])
    assert await scopes(database, "ada@example.com") == {}
    await recorder.receive([a_bounce(clock, emails[2], key="k9", verdict=ContactVerdict.SOFT_BOUNCE)])
    assert await scopes(database, "ada@example.com") == {"*": "soft_bounces"}


@pytest.mark.parametrize("leaves", [False, True])
async def test_soft_bounces_before_reactivation_do_not_count(
    database: Database, clock: ManualClock, leaves: bool
) -> None:
    recorder, people = Reports(database, clock), ContactStatusService(database, clock)
    emails = [await a_sent_message(database, clock, to="ada@example.com") for _ in range(7)]
    reports = [
        a_bounce(clock, message, key=f"k{n}", verdict=ContactVerdict.SOFT_BOUNCE) for n, message in enumerate(emails)
    ]
    await recorder.receive(reports[:3])
    assert await contact_status(database, "ada@example.com") == "bounced"
    clock.advance(DAY)
    await people.activate(1, "ada@example.com", source="cli")
    await recorder.receive([reports[3]])  # happened earlier, reported late
    if leaves:
        await people.unsubscribe_by_link(1, "ada@example.com", source="reader")
        await people.resubscribe_by_link(1, "ada@example.com", source="reader")
    clock.advance(DAY)
    await recorder.receive([replace(each, at=clock.now()) for each in reports[4:6]])
    assert await scopes(database, "ada@example.com") == {}
    assert await contact_status(database, "ada@example.com") == "active"
    await recorder.receive([replace(reports[6], at=clock.now())])
    assert await scopes(database, "ada@example.com") == {"*": "soft_bounces"}


async def test_late_soft_bounce_does_not_revive_old_ones(database: Database, clock: ManualClock) -> None:
    recorder = Reports(database, clock)
    emails = [await a_sent_message(database, clock, to="ada@example.com") for _ in range(4)]
    reports = [
        a_bounce(clock, message, key=f"k{n}", verdict=ContactVerdict.SOFT_BOUNCE) for n, message in enumerate(emails)
    ]
    await recorder.receive(reports[:3])
    await suppressions.remove(database, 1, "ada@example.com")
    clock.advance(300 * DAY)
    await recorder.receive([replace(reports[3], at=clock.now())])
    assert await scopes(database, "ada@example.com") == {}


async def test_old_reports_are_deleted_unless_they_count(database: Database, clock: ManualClock) -> None:
    message = await a_sent_message(database, clock, "sendgrid", to="ada@example.com")
    by = {"source": "sendgrid", "recipient": message.to_email}
    soft = {**by, "type_": EventType.BOUNCED, "verdict": ContactVerdict.SOFT_BOUNCE}
    received = [
        a_report(clock, key="open", **by),
        a_report(clock, key="proof", outbox_id=message.outbox_id, **by),
        a_report(clock, key="old", **soft),
        a_report(clock, key="counted", **{**soft, "at": clock.now() + 80 * DAY}),
    ]
    await Reports(database, clock).receive(received, by_address=True)
    clock.advance(90 * DAY)
    young = a_report(clock, key="young", **by)
    for left in (["counted", "old", "open", "proof", "young"], ["counted", "young"]):
        await (recorder := Reports(database, clock)).receive([young], by_address=True)
        await recorder.close()
        async with database.read() as tx:
            rows = await tx.execute(select(reports.c.key))
        assert sorted(row.key.removeprefix("sendgrid:") for row in rows) == left
        clock.advance(1)


async def test_proof_is_kept_until_message_is_settled(database: Database, clock: ManualClock) -> None:
    """After three months without a worker, the message that was being sent is not sent again."""
    message = a_message()
    await an_attempt(database, clock, message)
    await Reports(database, clock).receive([a_report(clock, outbox_id=message.outbox_id)])
    clock.advance(91 * DAY)
    assert await forget(database, SoftBounces(), clock.now()) == 0
    doubts = InDoubtHandler(database, clock, grace=0)
    await doubts.mark_lost_attempts()
    await doubts.decide_due()
    assert (await state(database))[0] == Status.SENT
    assert await forget(database, SoftBounces(), clock.now()) == 1


async def test_worker_deletes_old_reports_without_new_ones(bench: Bench) -> None:
    message = await a_sent_message(bench.database, bench.clock, "sendgrid")
    proof = a_report(bench.clock, outbox_id=message.outbox_id)
    await (recorder := Reports(bench.database, bench.clock)).receive([proof])
    await recorder.close()
    for age, left in ((89 * DAY, 1), (2 * DAY, 0)):
        bench.clock.advance(age)
        keeper = (await bench.worker(ScriptedProvider())).parts.maintenance
        await keeper.tick(lambda: (), ())
        async with bench.database.read() as tx:
            assert len(await tx.execute(select(reports.c.key))) == left


async def test_new_reports_are_counted_by_type(database: Database, clock: ManualClock) -> None:
    message = await a_sent_message(database, clock)
    labels = {"source": "ses", "type": "bounce", "verdict": "hard_bounce"}
    before = REGISTRY.get_sample_value("mailwright_reports_total", labels) or 0
    report = a_bounce(clock, message)
    await Reports(database, clock).receive([report, report, a_bounce(clock, a_message(), key="of nobody")])
    assert REGISTRY.get_sample_value("mailwright_reports_total", labels) == before + 1


@pytest.mark.promise("bounce-hard-or-soft")
async def test_soft_bounce_limit_is_configurable(database: Database, clock: ManualClock) -> None:
    message = await a_sent_message(database, clock, to="ada@example.com")
    recorder = Reports(database, clock, SoftBounces(count=1, days=1))
    await recorder.receive([a_bounce(clock, message, verdict=ContactVerdict.SOFT_BOUNCE)])
    assert await scopes(database, "ada@example.com") == {"*": "soft_bounces"}


async def test_rejected_address_is_recorded_in_settling_commit(database: Database, clock: ManualClock) -> None:
    first, second = a_message(to="ada@example.com"), a_message(to="ada@example.com")
    claimed = await an_attempt(database, clock, first)
    await an_acceptor(database, clock).accept([second])
    next_up = await claims_of(database, clock).claim(1)
    settling = ClaimSettling(database, clock, SmtpRejections())
    refusal = a_result(claimed, replace(REFUSAL, bounce=BounceKind.HARD), clock.now())
    # The result of the first commit may be lost, so it is written again.
    marked = [(await settling.exchange([refusal], next_up)).message_keys for _ in range(2)]
    assert marked == [frozenset(), frozenset()]
    assert steps(await record_of(database, first.outbox_id))[-2:] == ["FAILED", "bounce"]
    assert await scopes(database, "ada@example.com") == {"*": "bounce"}
    assert await contact_status(database, "ada@example.com") == "bounced"
    assert (await audit(database)).ok


async def test_reports_are_stored_as_received(database: Database, clock: ManualClock) -> None:
    message = await a_sent_message(database, clock, to="ada@example.com")
    told_at = clock.now()
    clock.advance(MINUTE)
    await Reports(database, clock).receive([a_bounce(clock, message, at=told_at)])
    async with database.read() as tx:
        [row] = await tx.execute(select(reports))
    assert (row.key, row.email, row.type, row.verdict) == (
        "ses:report-bounce",
        "ada@example.com",
        "bounce",
        "hard_bounce",
    )
    assert (row.at, row.received_at) == (told_at, told_at + MINUTE)
