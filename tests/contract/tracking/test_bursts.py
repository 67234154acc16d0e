"""Link scanners are recognised by their pace and by the invisible link, also after their clicks were counted."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select

from mailwright.audience.filter_sql import filter_clause
from mailwright.domain.clock import HOUR, MINUTE, SECOND, Instant, ManualClock
from mailwright.domain.report import Report
from mailwright.domain.states import EventType
from mailwright.events.outbound.derive import derive_deliveries
from mailwright.events.outbound.endpoints import WebhookEndpointInput, WebhookEndpoints
from mailwright.events.reports import Reports
from mailwright.outbox.tallies import CAMPAIGNS, LINKS, TENANTS, EventTallier
from mailwright.storage.database import Database
from mailwright.storage.tables import (
    campaign_tallies,
    contacts,
    events,
    hourly_tallies,
    installation,
    link_tallies,
    messages,
    suppressions,
    tallies,
    variant_tallies,
    webhook_deliveries,
)
from tests.sequences import SequenceBench
from tests.tracking import BROWSER, PERSON, Tracking, a_tracking, html_of, invisible_link_of, links_of, pixel_of

ANN, BOB = "ann@example.com", "bob@example.com"
PAGES = [f"https://shop.example/{name}" for name in ("a", "b", "c", "d")]
BODY = "".join(f'<p><a href="{page}">Page</a></p>' for page in PAGES) + '<a href="{{ unsubscribe_url }}">Leave</a>'


@pytest.fixture
async def tracking(database: Database, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Tracking]:
    async with a_tracking(database, clock, tmp_path) as tracking:
        yield tracking


async def _tally(tracking: Tracking) -> None:
    await EventTallier(tracking.bench.database, tracking.clock).add_existing()


async def _totals(tracking: Tracking) -> dict[str, list[tuple[Any, ...]]]:
    """Return all tallies without rows of zeros."""
    found = {}
    async with tracking.bench.database.read() as tx:
        for table in (tallies, hourly_tallies, campaign_tallies, variant_tallies, link_tallies):
            figures = [c.name for c in table.columns if c.name in _FIGURES]
            rows = await tx.execute(select(table))
            found[table.name] = sorted(tuple(row) for row in rows if any(getattr(row, name) for name in figures))
    return found


_FIGURES = {"events", "unique_messages", "sent", "opened", "clicked"}


async def _recount(tracking: Tracking) -> dict[str, list[tuple[Any, ...]]]:
    """Count all events again, as if nothing had been corrected."""
    async with tracking.bench.database.write() as tx:
        for table in (tallies, hourly_tallies, campaign_tallies, variant_tallies, link_tallies):
            await tx.execute(delete(table))
        cursors = [account.cursor for account in (TENANTS, CAMPAIGNS, LINKS)]
        await tx.execute(delete(installation).where(installation.c.name.in_(cursors)))
    await _tally(tracking)
    return await _totals(tracking)


async def _responses(tracking: Tracking) -> dict[tuple[str, Instant], tuple[bool, str | None]]:
    """Return whether each open and click is a machine's, and why, by type and time."""
    async with tracking.bench.database.read() as tx:
        rows = await tx.execute(select(messages.c.outbox_id))
    found = {}
    for row in rows:
        timeline = (await tracking.api.client.get(f"/v1/email/{row.outbox_id}")).json()["events"]
        for event in timeline:
            if event["type"] in ("open", "click"):
                metadata = event["metadata"]
                found[event["type"], event["createdAt"]] = (metadata["isMachine"], metadata.get("machineReason"))
    return found


async def _clicked(tracking: Tracking, campaign_id: str) -> list[str]:
    """Return who is in the segment of those who clicked."""
    clause = filter_clause({"clicked": {"campaign": campaign_id}}, 1, tracking.clock.now())
    async with tracking.bench.database.read() as tx:
        return [row.email for row in await tx.execute(select(contacts.c.email).where(clause))]


async def _burst(tracking: Tracking, urls: Sequence[str], *, is_tallied: bool = False) -> None:
    """Follow links 12 milliseconds apart with the agent of a browser, and store each click alone."""
    for url in urls:
        await tracking.request(url)
        await tracking.drain()
        if is_tallied:
            await _tally(tracking)
        tracking.clock.advance(12)


@pytest.mark.parametrize("is_tallied", [False, True])
@pytest.mark.parametrize("is_one_batch", [True, False])
async def test_burst_over_several_links_is_a_machine(tracking: Tracking, is_tallied: bool, is_one_batch: bool) -> None:
    campaign_id = await tracking.send(ANN, body=BODY)
    tracking.clock.advance(10 * MINUTE)
    links = links_of(tracking.content_to(ANN))[:4]
    if is_one_batch:
        for link in links:
            await tracking.request(link)
            tracking.clock.advance(12)
        await tracking.drain()
    else:
        await _burst(tracking, links, is_tallied=is_tallied)
    if is_tallied:
        await _tally(tracking)
    report = await tracking.report(campaign_id)
    assert report["clicks"] == {"people": 0, "machines": 1, "total": 0, "machineTotal": 4}
    assert [(each["url"], each["people"], each["machines"], each["total"]) for each in report["links"]] == [
        (page, 0, 1, 0) for page in PAGES
    ]
    assert {each["clicked"] for each in report["domains"]} == {0}
    tracking.clock.advance(HOUR)
    assert await _clicked(tracking, campaign_id) == []
    await _tally(tracking)
    assert await _totals(tracking) == await _recount(tracking)


async def test_person_after_a_burst_counts(tracking: Tracking) -> None:
    campaign_id = await tracking.send(ANN, body=BODY)
    tracking.clock.advance(10 * MINUTE)
    links = links_of(tracking.content_to(ANN))
    await _burst(tracking, links[:4], is_tallied=True)
    tracking.clock.advance(3 * HOUR)
    await tracking.request(links[0])
    tracking.clock.advance(3 * SECOND)
    await tracking.request(links[1])
    tracking.clock.advance(200)
    await tracking.request(links[1])
    await tracking.drain()
    await _tally(tracking)
    report = await tracking.report(campaign_id)
    assert report["clicks"] == {"people": 1, "machines": 1, "total": 3, "machineTotal": 4}
    assert await _totals(tracking) == await _recount(tracking)
    tracking.clock.advance(MINUTE)
    assert await _clicked(tracking, campaign_id) == [ANN]


async def test_click_counts_for_segments_after_a_few_seconds(tracking: Tracking) -> None:
    campaign_id = await tracking.send(ANN, body=BODY)
    await tracking.visit(links_of(tracking.content_to(ANN))[0])
    assert await _clicked(tracking, campaign_id) == []
    tracking.clock.advance(10 * SECOND)
    assert await _clicked(tracking, campaign_id) == [ANN]


@pytest.mark.both_engines
async def test_burst_starts_no_sequence(tracking: Tracking) -> None:
    campaign_id, sequences = await tracking.send(ANN, body=BODY), SequenceBench(tracking.bench)
    sequence_id = await sequences.start(trigger={"clicks": campaign_id})
    tracking.clock.advance(10 * MINUTE)
    links = links_of(tracking.content_to(ANN))
    await _burst(tracking, links[:1])
    await sequences.watch()  # The second click of the burst is not stored yet.
    await _burst(tracking, links[1:2])
    tracking.clock.advance(HOUR)
    await sequences.watch()
    assert await sequences.enrolments(sequence_id) == []
    await tracking.visit(links[0])
    tracking.clock.advance(2 * MINUTE)
    await sequences.watch()
    assert [each.email for each in await sequences.enrolments(sequence_id)] == [ANN]


async def test_invisible_link_is_hidden_from_people(tracking: Tracking) -> None:
    await tracking.send(ANN, body=BODY)
    content = tracking.content_to(ANN)
    hidden = invisible_link_of(content)
    assert hidden is not None
    assert hidden.startswith("http://mail.example/t/")
    anchor = (
        f'<a href="{hidden}" rel="nofollow" tabindex="-1" aria-hidden="true" style="display:none;mso-hide:all"></a>'
    )
    assert html_of(content).count(anchor) == 1
    text = message_from_bytes(content, policy=policy.default).get_body(("plain",))
    assert text is not None
    assert "/t/" not in text.get_content()
    answer = await tracking.request(hidden)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "location" not in answer.headers
    assert (answer.headers["cache-control"], answer.headers["referrer-policy"]) == ("no-store", "no-referrer")
    assert (await tracking.request(hidden, method="HEAD")).status_code == 200
    assert (await tracking.request(hidden[:-2])).status_code == 404


@pytest.mark.parametrize(
    ("changes", "settings"),
    [
        ({}, {"tracking_invisible_link": False}),
        ({"consents": None, "tracking": "anonymous"}, {}),
        ({"consents": False}, {}),
        ({"tracking": "off"}, {}),
        ({"body": "<p>No link</p>"}, {}),
    ],
)
async def test_email_without_individual_clicks_has_no_invisible_link(
    database: Database, clock: ManualClock, tmp_path: Path, changes: dict[str, Any], settings: dict[str, Any]
) -> None:
    async with a_tracking(database, clock, tmp_path, **settings) as tracking:
        await tracking.send(ANN, **{"body": BODY, **changes})
        assert invisible_link_of(tracking.content_to(ANN)) is None


@pytest.mark.parametrize("is_first", [False, True])
async def test_program_that_follows_the_invisible_link_is_a_machine(tracking: Tracking, is_first: bool) -> None:
    campaign_id = await tracking.send(ANN, body=f'<p><a href="{PAGES[0]}">Page</a></p>')
    content = tracking.content_to(ANN)
    visited = [links_of(content)[0], invisible_link_of(content) or ""]
    tracking.clock.advance(10 * MINUTE)
    for url in visited[::-1] if is_first else visited:
        await tracking.request(url)
        await tracking.drain()
        await _tally(tracking)
        tracking.clock.advance(4 * SECOND)
    report = await tracking.report(campaign_id)
    assert (report["clicks"]["people"], report["clicks"]["machines"], report["clicks"]["total"]) == (0, 1, 0)
    assert [(each["url"], each["people"]) for each in report["links"]] == [(PAGES[0], 0)]
    reasons = [reason for is_machine, reason in (await _responses(tracking)).values() if is_machine]
    assert "invisible_link" in reasons
    assert await _totals(tracking) == await _recount(tracking)
    await tracking.visit(visited[0])
    assert (await tracking.report(campaign_id))["clicks"]["people"] == 1


async def test_open_within_a_burst_is_a_machine(tracking: Tracking) -> None:
    campaign_id = await tracking.send(ANN, BOB, body=BODY)
    content = tracking.content_to(ANN)
    tracking.clock.advance(10 * MINUTE)
    await _burst(tracking, [pixel_of(content) or "", *links_of(content)[:2]], is_tallied=True)
    await tracking.visit(pixel_of(tracking.content_to(BOB)) or "")
    report = await tracking.report(campaign_id)
    assert (report["opens"]["people"], report["opens"]["machines"]) == (1, 1)
    await _tally(tracking)
    assert await _totals(tracking) == await _recount(tracking)


async def test_corrected_click_reaches_webhooks_and_the_timeline(tracking: Tracking) -> None:
    database, clock = tracking.bench.database, tracking.clock
    wanted = WebhookEndpointInput(url="https://hook.example/", types=["click", "corrected"])
    await WebhookEndpoints(database, clock).create(1, wanted, actor="test")
    await tracking.send(ANN, body=BODY)
    clock.advance(10 * MINUTE)
    links = links_of(tracking.content_to(ANN))
    await _burst(tracking, links[:1])
    await derive_deliveries(database, clock)
    clock.advance(100)
    await _burst(tracking, links[1:2])
    await derive_deliveries(database, clock)
    async with database.read() as tx:
        sent = await tx.execute(
            select(webhook_deliveries.c.type, events.c.metadata)
            .join(events, events.c.id == webhook_deliveries.c.event_key)
            .order_by(webhook_deliveries.c.id)
        )
    assert [row.type for row in sent] == ["click", "click", "corrected"]
    assert all('"machineReason":"burst"' in row.metadata for row in sent)
    assert f'"url":"{PAGES[0]}"' in sent[2].metadata


# Reports of providers, in any order and from several processes.


async def _outbox_id(tracking: Tracking, email: str = ANN) -> str:
    async with tracking.bench.database.read() as tx:
        [row] = await tx.execute(select(messages.c.outbox_id).where(messages.c.to_email == email))
    return str(row.outbox_id)


def _reports(outbox_id: str, since: Instant, *responses: tuple[EventType, Instant, str | None]) -> list[Report]:
    return [
        Report(
            f"{outbox_id}-{number}",
            "ses",
            type_,
            since + after,
            outbox_id=outbox_id,
            metadata={"isMachine": False, "userAgent": BROWSER, **({} if url is None else {"url": url})},
        )
        for number, (type_, after, url) in enumerate(responses)
    ]


_CLICK, _OPEN, _DELIVERED = EventType.CLICKED, EventType.OPENED, EventType.DELIVERED
# A scanner that is seen at the delivery, which was deferred, then a person, then a second scanner.
HISTORY: list[tuple[EventType, Instant, str | None]] = [
    (_CLICK, 600_000, PAGES[0]),
    (_DELIVERED, 600_500, None),
    (_OPEN, 700_000, None),
    (_CLICK, 900_000, PAGES[1]),
    (_CLICK, 903_000, PAGES[2]),
    (_CLICK, 903_150, PAGES[2]),
    (_CLICK, 4_000_000, PAGES[0]),
    (_OPEN, 4_000_000, None),
    (_CLICK, 4_000_900, PAGES[0]),
    (_CLICK, 4_001_800, PAGES[3]),
    (_CLICK, 9_000_000, PAGES[3]),
]
PEOPLE = {("open", 700_000), ("click", 900_000), ("click", 903_000), ("click", 903_150), ("click", 9_000_000)}


@pytest.mark.parametrize("seed", range(4))
async def test_order_of_reports_changes_no_figure(tracking: Tracking, seed: int) -> None:
    chance = random.Random(seed)
    campaign_id = await tracking.send(ANN, BOB, body=BODY)
    sent_at = tracking.clock.now()
    tracking.clock.advance(3 * HOUR)
    reports = [
        report for email in (ANN, BOB) for report in _reports(await _outbox_id(tracking, email), sent_at, *HISTORY)
    ]
    reports += reports[:3]
    if seed:
        chance.shuffle(reports)
    while reports:
        size = chance.choice([1, 1, 2, 5])
        await tracking.api.engine.reports.receive(reports[:size], by_address=True)
        del reports[:size]
        if chance.random() < 0.5:
            await _tally(tracking)
    await _tally(tracking)
    async with tracking.bench.database.read() as tx:
        rows = await tx.execute(select(events).where(events.c.type.in_(["open", "click"])))
    people = [(row.type, row.created_at - sent_at) for row in rows if '"isMachine":true' not in row.metadata]
    assert sorted(people) == sorted([*PEOPLE, *PEOPLE])
    assert len(rows) == 20
    assert (await tracking.report(campaign_id))["clicks"] == {
        "people": 2, "machines": 2, "total": 8, "machineTotal": 8,
    }  # fmt: skip
    assert await _totals(tracking) == await _recount(tracking)


async def test_processes_that_record_a_burst_together_recognise_it(tracking: Tracking) -> None:
    await tracking.send(ANN, body=BODY)
    tracking.clock.advance(HOUR)
    database, clock = tracking.bench.database, tracking.clock
    reports = _reports(
        await _outbox_id(tracking), clock.now() - MINUTE, *[(_CLICK, 10 * at, page) for at, page in enumerate(PAGES)]
    )
    processes = [Reports(database, clock) for _ in reports]
    tallier = EventTallier(database, clock)
    await asyncio.gather(
        *(process.receive([report]) for process, report in zip(processes, reports, strict=True)),
        *(tallier.add_batch() for _ in range(4)),
    )
    for process in processes:
        await process.close()
    await _tally(tracking)
    async with database.read() as tx:
        rows = await tx.execute(select(events.c.metadata).where(events.c.type == "click"))
    assert len(rows) == 4
    assert all('"machineReason":"burst"' in row.metadata for row in rows)
    assert await _totals(tracking) == await _recount(tracking)


async def test_click_reported_by_a_provider_too_soon_is_a_machine(tracking: Tracking) -> None:
    campaign_id = await tracking.send(ANN, body=BODY)
    reports = _reports(await _outbox_id(tracking), tracking.clock.now(), (_OPEN, 300, None), (_CLICK, 1_500, PAGES[0]))
    tracking.clock.advance(HOUR)
    for report in reports:
        await tracking.api.engine.reports.receive([report])
    report = await tracking.report(campaign_id)
    assert (report["clicks"]["people"], report["opens"]["people"]) == (0, 0)
    assert (report["clicks"]["machines"], report["opens"]["machines"]) == (1, 1)


async def test_single_click_needs_no_further_statement(tracking: Tracking, monkeypatch: pytest.MonkeyPatch) -> None:
    await tracking.send(ANN, body=BODY)
    tracking.clock.advance(HOUR)
    loaded: list[Any] = []
    monkeypatch.setattr("mailwright.events.response_judgement.load_responses", lambda *given: loaded.append(given))
    report = _reports(await _outbox_id(tracking), tracking.clock.now(), (_CLICK, 0, PAGES[0]))
    await tracking.api.engine.reports.receive(report)
    assert loaded == []


# The unsubscribe link.


@pytest.fixture(params=["auto", "compatible"])
async def unsubscribing(
    request: pytest.FixtureRequest, database: Database, clock: ManualClock, tmp_path: Path
) -> AsyncIterator[Tracking]:
    """An installation whose unsubscribe links act at once, for people in a browser or for everyone but machines."""
    settings = {"unsubscribe_base_url": "http://api/unsubscribe", "unsubscribe_secret": "s" * 32}
    async with a_tracking(database, clock, tmp_path, **(settings if request.param == "compatible" else {})) as tracking:
        tracking.api.anonymous.headers.update(PERSON)
        yield tracking


async def _unsubscribed(tracking: Tracking, address: str = ANN) -> tuple[str, list[str]]:
    """Return why a contact is suppressed, and the types of the events that are about unsubscribing."""
    async with tracking.bench.database.read() as tx:
        found = await tx.execute(select(suppressions.c.reason).where(suppressions.c.email == address))
        kinds = ("unsubscribe", "left", "joined", "corrected")
        rows = await tx.execute(select(events.c.type).where(events.c.type.in_(kinds)).order_by(events.c.id))
    return next((row.reason for row in found), "active"), [row.type for row in rows]


@pytest.mark.both_engines
@pytest.mark.promise("unsubscribe-scanners")
@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("position", range(5))
async def test_scan_of_all_links_unsubscribes_nobody(unsubscribing: Tracking, position: int, is_stored: bool) -> None:
    tracking = unsubscribing
    campaign_id = await tracking.send(ANN, body=BODY)
    tracking.clock.advance(10 * MINUTE)
    *links, leave = links_of(tracking.content_to(ANN))[:5]
    links.insert(position, leave)
    for link in links:
        response = await tracking.request(link)
        assert ("<button" in response.text) if link == leave and position else response.status_code in (200, 302)
        if is_stored:
            await tracking.drain()
            await _tally(tracking)
        tracking.clock.advance(120)
    await tracking.drain()
    state, types = await _unsubscribed(tracking)
    expected = [] if position else ["left", "joined"]
    assert (state, [each for each in types if each != "corrected"]) == ("active", expected)
    await _tally(tracking)
    report = await tracking.report(campaign_id)
    assert (sum(each["unsubscribed"] for each in report["domains"]), report["clicks"]["people"]) == (0, 0)
    assert await _totals(tracking) == await _recount(tracking)


@pytest.mark.both_engines
@pytest.mark.promise("unsubscribe-scanners")
async def test_visit_after_the_invisible_link_gets_a_button(unsubscribing: Tracking) -> None:
    tracking = unsubscribing
    await tracking.send(ANN, body=BODY)
    tracking.clock.advance(10 * MINUTE)
    content = tracking.content_to(ANN)
    await tracking.request(invisible_link_of(content) or "")
    tracking.clock.advance(3 * MINUTE)
    assert "<button" in (await tracking.request(links_of(content)[4])).text
    assert await _unsubscribed(tracking) == ("active", [])


@pytest.mark.both_engines
async def test_person_who_clicked_before_unsubscribes_at_once(unsubscribing: Tracking) -> None:
    tracking = unsubscribing
    await tracking.send(ANN, body=BODY)
    tracking.clock.advance(10 * MINUTE)
    *links, leave = links_of(tracking.content_to(ANN))[:5]
    for link in (links[0], leave, links[1]):
        await tracking.request(link)
        tracking.clock.advance(4 * SECOND)
    await tracking.drain()
    assert await _unsubscribed(tracking) == ("unsubscribed", ["left", "unsubscribe"])


@pytest.mark.both_engines
@pytest.mark.parametrize("confirmation", ["one click", "second visit"])
async def test_confirmed_unsubscribe_stays_after_a_scan(unsubscribing: Tracking, confirmation: str) -> None:
    tracking = unsubscribing
    await tracking.send(ANN, body=BODY)
    tracking.clock.advance(10 * MINUTE)
    *links, leave = links_of(tracking.content_to(ANN))[:5]
    for link in (leave, *links):
        await tracking.request(link)
        tracking.clock.advance(12)
    tracking.clock.advance(20 * SECOND)
    if confirmation == "one click":
        await tracking.api.anonymous.post(leave, data={"List-Unsubscribe": "One-Click"})
    else:
        await tracking.request(leave)
    await tracking.drain()
    assert (await _unsubscribed(tracking))[0] == "unsubscribed"


@pytest.mark.both_engines
@pytest.mark.parametrize("gap", [1_500, 7_000, 40_000])
async def test_scanner_with_an_even_pace_is_a_machine(unsubscribing: Tracking, gap: int) -> None:
    tracking = unsubscribing
    campaign_id = await tracking.send(ANN, body=BODY)
    tracking.clock.advance(10 * MINUTE + 7)
    for number, link in enumerate(links_of(tracking.content_to(ANN))[:5]):
        await tracking.request(link)
        await tracking.drain()
        tracking.clock.advance(gap + number % 2 * 60)
    report = await tracking.report(campaign_id)
    assert report["clicks"]["people"] == 0
    assert (await _unsubscribed(tracking))[0] == "active"
    await _tally(tracking)
    assert await _totals(tracking) == await _recount(tracking)


@pytest.mark.both_engines
@pytest.mark.parametrize("position", range(5))
async def test_scanner_with_uneven_pauses_unsubscribes_nobody(unsubscribing: Tracking, position: int) -> None:
    tracking = unsubscribing
    campaign_id = await tracking.send(ANN, body=BODY)
    tracking.clock.advance(10 * MINUTE)
    *links, leave = links_of(tracking.content_to(ANN))[:5]
    links.insert(position, leave)
    for link, pause in zip(links, (1_310, 4_480, 2_070, 3_690, 0), strict=True):
        await tracking.request(link)
        if link == leave:
            assert (await _unsubscribed(tracking))[1] == (["left", "unsubscribe"] if position < 2 else [])
        tracking.clock.advance(pause)
        await tracking.drain()
    # A visit that gets the page with the button is not recorded, so that the four others are no series.
    assert (await tracking.report(campaign_id))["clicks"]["people"] == (0 if position < 2 else 1)
    assert (await _unsubscribed(tracking))[0] == "active"
    await _tally(tracking)
    assert await _totals(tracking) == await _recount(tracking)
