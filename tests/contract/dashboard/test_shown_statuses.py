"""Pages show suppressed and bounced messages as such, and their figures agree with the lists behind them."""

import re
from collections.abc import AsyncIterator
from html import unescape

import pytest
from sqlalchemy import update

from mailwright.access.roles import Role
from mailwright.audience.suppressions import ALL_MESSAGES, add_all
from mailwright.domain.clock import DAY, MINUTE, ManualClock
from mailwright.domain.message import NewMessage
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.outbox.tallies import EventTallier
from mailwright.storage.tables import messages
from mailwright.web.app import create_app
from tests.api import an_engine
from tests.builders import DEFAULT_TENANT, FAULT, REFUSAL, Bench, a_message
from tests.campaigns import NEWS, CampaignHarness, address_of, join
from tests.pages import HOME, PASSWORD, Visit, a_visit
from tests.standins.provider import ScriptedProvider


@pytest.fixture
async def ada(bench: Bench, clock: ManualClock) -> AsyncIterator[Visit]:
    web_engine = an_engine(bench.database, clock, base_url=HOME)
    await web_engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
    app = create_app(web_engine)
    async with a_visit(app) as visit:
        yield visit
    await app.state.finish()


async def suppress(bench: Bench, email: str) -> None:
    async with bench.database.write() as tx:
        await add_all(
            tx, DEFAULT_TENANT, [email], reason="operator", source="test", now=bench.clock.now(), list_key=ALL_MESSAGES
        )


def bounce_of(bench: Bench, message: NewMessage) -> Report:
    return Report(
        "b1",
        "ses",
        EventType.BOUNCED,
        bench.clock.now(),
        "back@example.com",
        outbox_id=message.outbox_id,
        verdict=ContactVerdict.HARD_BOUNCE,
    )


async def figures_of(ada: Visit) -> tuple[dict[str, str], dict[str, str]]:
    """Return the figures of the overview and their links, by name."""
    await ada.open("/")
    found = re.findall(r'<dt>([^<]+)</dt>\s*<dd><a href="([^"]+)"[^>]*>([\d,+]+)</a>', ada.text)
    return {name: number for name, _, number in found}, {name: unescape(link) for name, link, _ in found}


async def rows_of(ada: Visit, path: str) -> int:
    await ada.open(path)
    return ada.text.count('<td class="main-cell">')


async def test_figures_of_the_overview_agree_with_their_lists(ada: Visit, bench: Bench) -> None:
    bench.clock.advance(-DAY - MINUTE)
    await bench.accept(a_message(to="old@example.com"), a_message(to="old-sent@example.com"))
    await bench.drain(ScriptedProvider(REFUSAL))
    bench.clock.advance(DAY + MINUTE)
    await suppress(bench, "gone@example.com")
    bounced = a_message(to="back@example.com")
    accepted = [a_message(to=f"{name}@example.com") for name in ("a", "b", "c", "d")]
    await bench.accept(a_message(to="gone@example.com"), *accepted, bounced)
    await bench.drain(ScriptedProvider(REFUSAL, REFUSAL, FAULT))
    await bench.engine.reports.receive([bounce_of(bench, bounced)])
    # Keys do not follow the acceptance times, as after the clock was set back.
    async with bench.database.write() as tx:
        await tx.execute(update(messages).values(created_at=bench.clock.now() - 2 * DAY + messages.c.id))
    await bench.accept(a_message(to="later@example.com", scheduled_at=bench.clock.now() + DAY))
    await EventTallier(bench.database, bench.clock).add_existing()
    figures, links = await figures_of(ada)
    for name in ("To send", "Sent, last 24 h", "Failed, last 24 h"):
        assert await rows_of(ada, links[name]) == int(figures[name]), name
    assert (figures["Sent, last 24 h"], figures["Failed, last 24 h"]) == ("2", "2")


async def test_recipients_without_message_are_in_the_queue(ada: Visit, bench: Bench) -> None:
    desk = CampaignHarness(bench)
    await desk.start(3)
    figures, links = await figures_of(ada)
    assert (figures["To send"], links["To send"]) == ("3", "#queue")
    await desk.run_scheduler()
    figures, links = await figures_of(ada)
    assert (figures["To send"], await rows_of(ada, links["To send"])) == ("3", 3)


async def test_suppressed_and_bounced_messages_have_their_filters(ada: Visit, bench: Bench) -> None:
    await suppress(bench, "gone@example.com")
    bounced = a_message(to="back@example.com")
    await bench.accept(a_message(to="gone@example.com"), bounced, a_message(to="fine@example.com"))
    await bench.drain(ScriptedProvider())
    await bench.engine.reports.receive([bounce_of(bench, bounced)])
    for status, email in (("SUPPRESSED", "gone"), ("BOUNCED", "back"), ("SENT", "fine")):
        assert await rows_of(ada, f"/messages?status={status}") == 1, status
        assert f"{email}@example.com" in ada.text
    assert await rows_of(ada, "/messages?status=FAILED") == 0
    assert await rows_of(ada, "/messages?status=bogus") == 3
    assert "There is no status “bogus”, so this filter is ignored." in ada.words()
    await ada.open(f"/messages/{bounced.outbox_id}")
    assert "Bounced" in ada.words()


async def test_queued_campaign_message_shows_its_rendered_subject(ada: Visit, bench: Bench) -> None:
    desk = CampaignHarness(bench)
    campaign_id = await desk.start(1)
    await desk.run_scheduler()
    [row] = await desk.report(campaign_id)
    await ada.open(f"/messages/{row.message_id}")
    assert "News for Ann" in ada.words()
    assert "{{ name }}" not in ada.words()


async def test_suppressed_member_is_not_shown_as_active(ada: Visit, bench: Bench) -> None:
    await join(bench.database, [address_of(0)])
    await suppress(bench, address_of(0))
    for path in (f"/lists/{NEWS}", "/contacts"):
        await ada.open(path)
        assert "Suppressed" in ada.words(), path
