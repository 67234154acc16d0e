"""Every action of the dashboard through its own button, without scripts, on both engines."""

import asyncio
import csv
import io
import re
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyotp
import pytest
from fastapi import Request
from sqlalchemy import insert, select
from starlette.responses import StreamingResponse

from mailwright.access.roles import Role
from mailwright.app import wiring
from mailwright.app.notification_queue import notification_service_opener
from mailwright.audience import lists, segments
from mailwright.content.mime import EmailAttachment
from mailwright.domain.campaign import INDEFINITELY, NEXT_WAVE
from mailwright.domain.clock import DAY, HOUR, ManualClock
from mailwright.domain.errors import NotFound
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType, OnDoubt
from mailwright.events.outbound.endpoints import WebhookEndpointInput
from mailwright.outbox import tenants
from mailwright.outbox.defer import defer_lane
from mailwright.sources.campaigns.definition import CampaignDefinition, CampaignLimits
from mailwright.storage.tables import message_dead_letters, messages
from mailwright.web.app import create_app
from mailwright.web.dashboard.stream import stream
from mailwright.web.live import LiveUpdates
from mailwright.web.session import visitor_of
from tests.api import an_engine
from tests.articles import the_slices, write_slices
from tests.builders import DEFAULT_TENANT, REFUSAL, UNKNOWN, Bench, a_message, change_tenant
from tests.campaigns import NEWS, OPERATOR, CampaignHarness, a_definition, a_list, address_of, join
from tests.conftest import DatabaseAddress
from tests.mailouts import a_mailout_bench
from tests.notifications import a_queue_setup, make_tables
from tests.pages import HOME, PASSWORD, Visit, a_visit, actions_on
from tests.standins.provider import ScriptedProvider

EXAMPLES = Path(__file__).parents[2] / "examples" / "notifications"
HOOK = "https://shop.example.com/hooks/mail"
# The dashboard of the tests sends to the local mailbox.
SEND = "Send to the local mailbox (nobody receives it)"


@pytest.fixture
def web_engine(bench: Bench, clock: ManualClock, tmp_path: Path) -> wiring.Engine:
    return an_engine(bench.database, clock, base_url=HOME, imports=tmp_path / "imports")


@pytest.fixture
async def ada(web_engine: wiring.Engine) -> AsyncIterator[Visit]:
    await web_engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
    async with a_visit(create_app(web_engine)) as visit:
        yield visit


@pytest.fixture
def desk(bench: Bench) -> CampaignHarness:
    return CampaignHarness(bench)


# Campaigns.


async def test_failures_are_retried_then_accepted(ada: Visit, desk: CampaignHarness) -> None:
    campaign_id = await desk.start(3)
    await desk.bench.drain(ScriptedProvider(REFUSAL, REFUSAL))
    await ada.open(f"/campaigns/{campaign_id}/recipients?show=failed")
    assert address_of(0) in ada.text
    assert REFUSAL.code in ada.text
    await ada.press("Retry all")
    assert (ada.path, ada.flash) == (f"/campaigns/{campaign_id}", "2 recipients queued for retry.")
    await desk.bench.drain(ScriptedProvider(REFUSAL))
    await ada.open(f"/campaigns/{campaign_id}")
    assert "Failures to review" in ada.text
    await ada.press("Accept failures")
    assert ada.flash == "Failures accepted. The campaign is finished."
    assert await desk.status(campaign_id) == "SENT"
    assert (await desk.counts(campaign_id)).failed == 1
    assert (await desk.audit_actions(campaign_id))[-2:] == ["retry_failed", "accept_failures"]
    assert "Accept failures" not in ada.buttons()


async def test_scheduled_campaign_is_cancelled_before_it_starts(ada: Visit, desk: CampaignHarness) -> None:
    await join(desk.database, [address_of(0)])
    campaign_id = await desk.create()
    await change_tenant(desk.database, timezone="Europe/Lisbon")
    await ada.open(f"/campaigns/{campaign_id}/edit/schedule")
    await ada.press("Continue to review", 422, when="later", scheduledAt="")
    assert "Choose a date and time." in ada.text
    await ada.press("Continue to review", when="later", scheduledAt="2020-06-01T09:30")
    assert "The send time is in the past." in ada.flash
    await ada.press("Schedule for 1 Jun 2020, 09:30 Europe/Lisbon (local mailbox, nobody receives it)", 422)
    assert "in the past" in ada.text
    assert await desk.status(campaign_id) == "DRAFT"
    await ada.open(f"/campaigns/{campaign_id}/edit/schedule")
    await ada.press("Continue to review", when="later", scheduledAt="2027-06-01T09:30")
    await ada.press("Schedule for 1 Jun 2027, 09:30 Europe/Lisbon (local mailbox, nobody receives it)")
    assert "Campaign scheduled." in ada.flash
    found = await desk.campaign(campaign_id)
    assert (found.status, found.definition.scheduled_at) == ("READY", 1_811_838_600_000)  # summer time in Lisbon
    await desk.bench.drain(ScriptedProvider())
    assert (await desk.deferral(campaign_id))[0] == "scheduled"
    await ada.press("Change send time", scheduledAt="2027-06-02T09:30")
    assert ada.flash.startswith("Send time changed.")
    assert (await desk.campaign(campaign_id)).definition.scheduled_at == 1_811_838_600_000 + DAY
    await ada.press("Cancel campaign")
    assert await desk.status(campaign_id) == "CANCELLED"
    assert "Cancel campaign" not in ada.buttons()


WELCOME = '<p>Hello</p><a href="{{ unsubscribe_url }}">Leave</a>'
# The fields of a draft and the part that the refusal names.
EDITS: dict[str, dict[str, Any]] = {
    "content": {"content": {"subject": "Other news", "templateId": "welcome"}},
    "audience": {"excludeLists": ["other"]},
    "sender": {"from": "boss@example.com"},
    "limits": {"limits": {"dailyLimit": 5}},
    "send time": {"scheduledAt": 1_900_000_000_000},
}


async def the_reviewed_fields(desk: CampaignHarness) -> dict[str, Any]:
    """Return the fields of drafts that use a template and a segment."""
    await join(desk.database, [address_of(0)])
    await join(desk.database, [address_of(1)], "other")
    await segments.create(desk.database, desk.clock, DEFAULT_TENANT, "pros", filter_={"attribute": "plan", "is": "pro"})
    await publish(desk, "News")
    return {"content": {"templateId": "welcome"}, "segment": "pros"}


@pytest.mark.promise("campaign-as-reviewed")
async def test_start_sends_only_reviewed_content(ada: Visit, desk: CampaignHarness) -> None:
    fields = await the_reviewed_fields(desk)
    changes: list[tuple[str, Callable[[str], Awaitable[object]]]] = [
        (part, partial(edit_draft, desk, a_definition(**fields | edit))) for part, edit in EDITS.items()
    ]
    changes += [
        ("content", lambda _: publish(desk, "Wrong")),
        ("content", lambda key: desk.campaigns.attach(OPERATOR, key, [EmailAttachment("a.txt", "text/plain", b"x")])),
        ("audience", lambda _: change_segment(desk, {"attribute": "plan", "is": "free"})),
    ]
    for part, change in changes:
        campaign_id = await desk.create(**fields)
        await ada.open(f"/campaigns/{campaign_id}")
        await change(campaign_id)
        await ada.press(SEND, 422)
        assert f"The campaign was changed since you reviewed it: {part}. Check it" in ada.text
        assert await desk.status(campaign_id) == "DRAFT"
        await change_segment(desk, {"attribute": "plan", "is": "pro"})
        await ada.open(f"/campaigns/{campaign_id}")  # The page after the refusal shows the changed draft.
        [start] = [button for button in ada.buttons() if button.startswith((SEND, "Schedule for"))]
        await ada.press(start)
        assert await desk.status(campaign_id) == "READY"


async def publish(desk: CampaignHarness, subject: str) -> None:
    await desk.bench.engine.templates.put(DEFAULT_TENANT, "welcome", subject=subject, html=WELCOME, text=None)


async def edit_draft(desk: CampaignHarness, definition: CampaignDefinition, campaign_id: str) -> None:
    await desk.campaigns.edit(OPERATOR, campaign_id, definition)


async def change_segment(desk: CampaignHarness, filter_: dict[str, Any]) -> None:
    await segments.change(desk.database, desk.clock, DEFAULT_TENANT, "pros", filter_=filter_)


@pytest.mark.promise("campaign-as-reviewed")
async def test_refused_start_shows_the_review_again(ada: Visit, desk: CampaignHarness) -> None:
    await join(desk.database, [address_of(0)])
    campaign_id = await desk.create()
    await ada.open(f"/campaigns/{campaign_id}")
    await edit_draft(desk, a_definition(content={"subject": "Another one", "body": WELCOME}), campaign_id)
    await ada.press(SEND, 422)
    assert "Another one" in ada.text
    await ada.press(SEND)
    assert ada.flash.startswith("Campaign started.")
    await ada.client.post(f"/campaigns/{await desk.create()}/start")
    assert [each.status for each in await desk.campaigns.list_page(tenant_id=DEFAULT_TENANT, limit=1)] == ["DRAFT"]


@pytest.mark.promise("campaign-as-reviewed")
async def test_scheduled_campaign_is_sent_only_as_reviewed(
    ada: Visit, web_engine: wiring.Engine, desk: CampaignHarness
) -> None:
    later = desk.clock.now() + DAY
    campaign_id = await desk.start(1, scheduledAt=later)
    path = f"/campaigns/{campaign_id}"
    await ada.open(path)
    [reviewed] = set(re.findall(r"send-now\?reviewed=([\w.]+)", ada.text))
    assert f'data-live="{path}/stream?reviewed={reviewed}"' in ada.text
    await web_engine.campaign_removal.withdraw(OPERATOR, campaign_id)
    await edit_draft(desk, a_definition(content={"subject": "Wrong", "body": WELCOME}, scheduledAt=later), campaign_id)
    desk.clock.advance(1)
    await desk.campaigns.start(OPERATOR, campaign_id)
    await ada.press("Change send time", 422)
    assert "changed since you reviewed it: content. Check it" in ada.text
    await ada.open(f"{path}/send-now?reviewed={reviewed}")
    await ada.press(SEND, 422)
    assert (await desk.campaign(campaign_id)).definition.scheduled_at == later
    await desk.campaigns.pause(OPERATOR, campaign_id)
    await ada.open(path)
    await desk.campaigns.edit_limits(OPERATOR, campaign_id, CampaignLimits(daily_limit=1))
    await ada.press("Resume campaign")
    assert "changed since you reviewed it: limits. Check it" in ada.flash
    assert await desk.status(campaign_id) == "PAUSED"
    await ada.press("Resume campaign")
    assert ada.flash == "Campaign resumed."


@pytest.mark.parametrize(("length", "is_listed"), [(HOUR, False), (None, True)])
async def test_overview_lists_only_waits_for_a_user(
    ada: Visit, desk: CampaignHarness, length: int | None, is_listed: bool
) -> None:
    campaign_id = await desk.start(1, name="Museum evening")
    lane = (await desk.position(campaign_id)).lane
    await defer_lane(desk.database, lane, NEXT_WAVE, INDEFINITELY if length is None else desk.clock.now() + length)
    await ada.open("/")
    assert ("Museum evening waits before its next wave." in ada.words()) is is_listed


async def test_pages_show_international_domains_to_people(ada: Visit, desk: CampaignHarness) -> None:
    await join(desk.database, ["ada@xn--bcher-kva.example"])
    await ada.open("/contacts")
    assert "ada@bücher.example" in ada.words()
    assert 'href="/contacts/ada%40xn--bcher-kva.example"' in ada.text
    await ada.open("/contacts/ada@xn--bcher-kva.example")
    assert "ada@bücher.example" in ada.words()


async def test_send_now_confirms_the_present_audience(ada: Visit, desk: CampaignHarness) -> None:
    campaign_id = await desk.start(2, scheduledAt=desk.clock.now() + DAY)
    await join(desk.database, [address_of(number) for number in range(2, 5)])
    await ada.open(f"/campaigns/{campaign_id}")
    [loaded] = set(re.findall(rf'hx-get="(/campaigns/{campaign_id}/send-now[^"]*)"', ada.text))
    await ada.open(loaded)
    assert "Send this campaign now to 5 recipients?" in ada.text
    await ada.press(SEND)
    assert ada.flash.startswith("The campaign will be sent now.")


async def test_form_errors_appear_at_their_field(ada: Visit, desk: CampaignHarness) -> None:
    await a_list(desk.database)
    campaign_id = await desk.create()
    steps: dict[str, dict[str, str]] = {
        "content": {"name": "", "variables": "no sign"},
        "audience": {"from": "nobody", "replyTo": "x"},
        "schedule": {"limits.dailyLimit": "-5", "limits.timezone": "Nowhere"},
    }
    for step, wrong in steps.items():
        await ada.open(f"/campaigns/{campaign_id}/edit/{step}")
        for name, text in wrong.items():
            await ada.press("Save and close", 422, **{name: text})
            found = re.findall(r'<p class="error" id="([\w.]+)-error">(?:<svg.*?</svg>)?(.*?)</p>', ada.text, re.DOTALL)
            assert [field for field, _ in found] == [name]
            assert f'<a href="#{name}">' in ada.text
            assert f'value="{text}"' in ada.text or f">\n{text}</textarea>" in ada.text
            await ada.open(f"/campaigns/{campaign_id}/edit/{step}")
    await ada.open(f"/campaigns/{campaign_id}")
    await ada.press("Send test email", 422, addresses="ann@example.com, a@b")
    assert "&#39;a@b&#39; is not a valid address: the domain needs a dot" in ada.text


async def test_draft_with_only_a_name_is_saved_and_refused(ada: Visit, desk: CampaignHarness) -> None:
    await ada.open("/campaigns/new")
    await ada.press("Save and close", name="Idea", **{"content.body": ""})
    [draft] = await desk.campaigns.list_page(tenant_id=DEFAULT_TENANT, limit=5)
    assert (draft.name, draft.definition.content.is_written) == ("Idea", False)
    await ada.open(f"/campaigns/{draft.campaign_id}")
    await ada.press(SEND, 422)
    assert "Write the email, or choose a template." in ada.text
    assert "Choose a list or a segment." in ada.text
    assert await desk.status(draft.campaign_id) == "DRAFT"


async def test_audience_step_chooses_the_only_list(ada: Visit, desk: CampaignHarness) -> None:
    campaign_id = await desk.create(lists=[])
    await ada.open(f"/campaigns/{campaign_id}/edit/audience")
    await ada.press("Continue", 422)
    assert "Choose a list or a segment." in ada.text
    await a_list(desk.database)
    await ada.open(f"/campaigns/{campaign_id}/edit/audience")
    await ada.press("Continue")
    assert (await desk.campaign(campaign_id)).definition.lists == (NEWS,)


async def test_each_step_keeps_values_of_the_others(ada: Visit, desk: CampaignHarness) -> None:
    await a_list(desk.database)
    given: dict[str, Any] = {
        "filter": {"tag": "vip"},
        "from": "Ann <ann@example.com>",
        "limits": {"ratePerHour": 7, "workingHours": "Mon-Fri 09:00-18:00, Sat 10:00-14:00"},
        "waves": {"percents": [3]},
        "utm": {"source": "news"},
        "scheduledAt": desk.clock.now() + DAY + 1_234,
        "variables": {"plan": "pro"},
    }
    campaign_id = await desk.create(**given)
    before = (await desk.campaign(campaign_id)).definition
    for step, button in (("content", "Continue"), ("audience", "Continue")):
        await ada.open(f"/campaigns/{campaign_id}/edit/{step}")
        await ada.press(button, nth=1)
        assert (await desk.campaign(campaign_id)).definition == before
    await ada.open(f"/campaigns/{campaign_id}/edit/schedule")
    await ada.press("Continue to review")
    after = (await desk.campaign(campaign_id)).definition
    assert (after.limits, after.waves) == (before.limits, before.waves)


async def test_preview_reports_only_errors_of_the_email(ada: Visit) -> None:
    await ada.open("/campaigns/new")
    form = next(each for each in ada.forms() if each.attributes.get("id") == "compose")
    headers = {"HX-Request": "true"}
    for change, is_fine in (
        ({"name": "", "experiment.testPercent": "x"}, True),
        ({"content.subject": "Hello {{ name"}, False),
    ):
        answer = await ada.client.post("/campaigns/preview/details", data=form.filled(change), headers=headers)
        assert ('data-preview="ok"' in answer.text, "data-in-subject" not in answer.text) == (is_fine, is_fine), change
        assert "data-line" not in answer.text


async def test_start_confirmation_states_recipients_and_limits(ada: Visit, desk: CampaignHarness) -> None:
    await join(desk.database, [address_of(0), address_of(1)])
    limits = {"ratePerHour": 500, "workingHours": "09:00-18:00", "timezone": "Europe/Lisbon"}
    campaign_id = await desk.create(limits=limits)
    await ada.open(f"/campaigns/{campaign_id}")
    assert "Limits 500 per hour, 09:00-18:00, Europe/Lisbon" in ada.words()
    await ada.open(f"/campaigns/{campaign_id}/checks")
    question = "goes to 2 recipients on news; limits: 500 per hour, 09:00-18:00, Europe/Lisbon."
    assert question in ada.text
    assert " disabled" not in ada.text
    empty = await desk.create(lists=["nobody"])
    await ada.open(f"/campaigns/{empty}/checks")
    assert " disabled" in ada.text


async def test_advice_does_not_repeat_its_issue(ada: Visit, desk: CampaignHarness) -> None:
    await join(desk.database, [address_of(0)])
    links = "".join(
        f'<a href="{to}">Shop</a>' for to in ("/shop", "http://localhost/", "#", "https://bit.ly/a", "htp://a")
    )
    images = "".join(
        f'<img src="{source}">' for source in ("http://a.example/b.png", "data:image/png;base64,AA", "b.png")
    )
    words = {"subject": "RE: COME AND SEE {{ seat }}!!!", "body": f"<p>{links}{images}<video></video></p>", "text": " "}
    audiences: list[dict[str, Any]] = [{}, {"lists": []}, {"lists": ["none"], "segment": "none"}]
    drafts = [await desk.create(content=words, **audience) for audience in audiences]
    drafts.append(await desk.create(content={"templateId": "none"}))
    told: dict[str, str] = {}
    for campaign_id in drafts:
        await ada.open(f"/campaigns/{campaign_id}/checks")
        told |= re.findall(r"<b>(.*?)</b>(?: <span>(.*?)</span>)?", ada.text)
    assert len(told) > 18
    for finding, advice in told.items():
        assert not pairs(finding) & pairs(advice), (finding, advice)


def pairs(text: str) -> set[tuple[str, str]]:
    """Return pairs of consecutive words, without short words."""
    words = re.findall(r"[a-z]{4,}", text.lower())
    return set(pairwise(words))


async def test_forecast_links_to_settings_that_change_it(ada: Visit, desk: CampaignHarness) -> None:
    campaign_id = await desk.start(3, limits={"ratePerHour": 1})
    await desk.bench.drain(ScriptedProvider())
    await ada.open(f"/campaigns/{campaign_id}/forecast")
    assert f'href="/campaigns/{campaign_id}/content#limits"' in ada.text
    assert "Still to send" not in ada.text
    await ada.open(f"/campaigns/{campaign_id}")
    await ada.press("Pause campaign")
    await ada.open(f"/campaigns/{campaign_id}/forecast")
    assert "<dd>When you resume it</dd>" in ada.text
    assert "<dt>What you can do</dt><dd>Resume the campaign.</dd>" in ada.text
    assert "Change the limits" not in ada.text


async def test_campaign_is_extended_to_new_recipients_and_duplicated(ada: Visit, desk: CampaignHarness) -> None:
    campaign_id = await desk.start(2)
    await desk.bench.drain(ScriptedProvider())
    await ada.open(f"/campaigns/{campaign_id}")
    assert f'hx-get="/campaigns/{campaign_id}/new-recipients"' in ada.text
    await ada.open(f"/campaigns/{campaign_id}/new-recipients")
    assert "Everyone in the audience already has a message of the campaign." in ada.text
    await join(desk.database, ["late@example.com"])
    await ada.open(f"/campaigns/{campaign_id}/new-recipients")
    await ada.press("Send to 1 new recipient", reviewed="other")
    assert "changed since you reviewed it" in ada.flash
    await ada.open(f"/campaigns/{campaign_id}/new-recipients")
    await ada.press("Send to 1 new recipient")
    assert "Campaign extended to new recipients." in ada.flash
    await desk.bench.drain(provider := ScriptedProvider())
    assert [message.recipients for message in provider.messages] == [("late@example.com",)]

    await ada.open(f"/campaigns/{campaign_id}")
    await ada.press("Duplicate")
    copied = re.fullmatch(r"/campaigns/([\w-]+)/edit/content", ada.path)
    assert copied is not None
    await ada.press("Continue", nth=1, name="News of February")
    assert (await desk.campaign(copied[1])).name == "News of February"
    assert await desk.status(copied[1]) == "DRAFT"
    await ada.open(f"/campaigns/{copied[1]}")
    await ada.press("Delete")
    assert ada.flash == "Deleted News of February."
    with pytest.raises(NotFound):
        await desk.campaign(copied[1])
    await ada.press("Undo")
    assert await desk.status(copied[1]) == "DRAFT"


async def test_user_chooses_the_winning_variant(ada: Visit, desk: CampaignHarness) -> None:
    versions = {"variants": [{"name": "A"}, {"name": "B", "subject": "Other"}], "testPercent": 20}
    campaign_id = await desk.start(10, experiment=versions)
    await desk.bench.drain(ScriptedProvider())
    await ada.open(f"/campaigns/{campaign_id}/report/figures")  # opened directly, as without scripts
    assert "Main" in ada.text
    assert "Probability to be best" in ada.words()
    assert ada.text.count("50.0 %") == 2
    await ada.press("Choose as winner", nth=1)
    assert ada.path == f"/campaigns/{campaign_id}/report"
    await desk.bench.drain(provider := ScriptedProvider())
    assert len(provider.messages) == 8
    assert all(b"Subject: Other" in message.content for message in provider.messages)
    await ada.open(f"/campaigns/{campaign_id}/report/figures")
    assert "chosen by ada" in ada.text


# Messages.


async def test_bounced_message_is_explained_in_tenant_time_zone(ada: Visit, bench: Bench, clock: ManualClock) -> None:
    [outbox_id] = await bench.accept(a_message(to="lost@example.com"))
    await bench.drain(ScriptedProvider())
    clock.advance(60_000)
    bounce: dict[str, Any] = {"outbox_id": outbox_id, "recipient": "lost@example.com", "bounce_type": "Permanent"}
    told = Report("1", "ses", EventType.BOUNCED, clock.now(), verdict=ContactVerdict.HARD_BOUNCE, **bounce)
    await bench.engine.reports.receive([told])
    await change_tenant(bench.database, timezone="Asia/Tokyo")
    await ada.open("/messages?q=lost@example.com")
    await ada.open(f"/messages/{outbox_id}")
    assert "Sent by scripted at 17:00 Asia/Tokyo (60 seconds ago). It bounced permanently." in ada.words()
    assert "UTC" not in ada.words().partition("Timeline")[0]
    assert 'href="/suppressions?q=lost%40example.com"' in ada.text
    assert "mailwright contact" not in ada.text
    await ada.open("/suppressions?q=lost%40example.com")
    await ada.press("Remove suppression")
    assert "lost@example.com" not in (await ada.open("/suppressions")).words()


async def test_unconfirmed_message_is_closed_as_unknown(ada: Visit, bench: Bench) -> None:
    [outbox_id] = await bench.accept(a_message(on_doubt=OnDoubt.HOLD))
    await bench.drain(ScriptedProvider(UNKNOWN))
    await ada.open(f"/messages/{outbox_id}")
    assert "counts neither as sent nor as failed. This cannot be undone." in ada.words()
    await ada.press("Close as unknown")
    assert ada.flash == "Email closed as unknown."
    assert "Close as unknown" not in ada.buttons()


async def test_dead_letters_are_mentioned_only_if_there_are_some(ada: Visit, bench: Bench) -> None:
    await bench.accept(a_message())
    await bench.drain(ScriptedProvider(REFUSAL))
    await ada.open("/messages?status=FAILED")
    assert "used up their attempts" not in ada.words()
    async with bench.database.write() as tx:
        [failed] = await tx.execute(select(messages.c.id))
        dead_letter = {"tenant_id": DEFAULT_TENANT, "code": "REFUSED", "reason": "550", "attempts": 5, "created_at": 0}
        await tx.execute(insert(message_dead_letters).values(message_key=failed.id, **dead_letter))
    await ada.open("/messages?status=FAILED")
    assert "used up their attempts" in ada.words()
    await ada.open("/")
    assert "1 dead letter" in ada.words()


# People.


async def test_contact_history_shows_rendered_subjects(ada: Visit, bench: Bench) -> None:
    """This includes emails that are too old for the list of recent emails."""
    plain = {"to": "grace@example.com", "subject": "Order {{ number }}", "html": "<p>Thank you</p>"}
    for number in range(12):
        payload = {**plain, "variables": {"number": f"#{number}"}}
        await bench.accept(a_message(to="grace@example.com", subject="Order {{ number }}", payload=payload))
    await bench.drain(ScriptedProvider())
    await ada.open("/contacts/grace@example.com")
    told = re.findall(r'<p class="details">(.*?)</p>', ada.text)
    assert sorted(told) == sorted(f"Order #{number}" for number in range(12))


async def test_import_to_double_opt_in_list_requires_consent(ada: Visit, web_engine: wiring.Engine) -> None:
    await lists.create(web_engine.database, web_engine.clock, DEFAULT_TENANT, "news", requires_confirmation=True)
    await ada.open("/imports")
    [form] = [form for form in ada.forms() if form.action == "/imports/file"]
    file = {"upload": ("people.csv", b"email,city\nada@example.com,Bern\n")}
    sent = form.filled({"list": "news", "upload": None})
    ada.answer = await ada.client.post("/imports/file", data=sent, files=file, follow_redirects=True)
    assert ada.answer.status_code == 200
    assert "ada@example.com" in ada.words()
    await ada.press("Update preview")
    await ada.press("Start import", 422)
    assert "requires confirmation" in ada.flash
    assert "ada@example.com" in ada.words()
    await ada.press("Update preview", confirmed="yes")
    assert "consent confirmed" in ada.words()
    await ada.press("Start import")
    await web_engine.import_uploads.finish()
    await ada.open(f"{ada.path}/report.csv")
    assert "ada@example.com,added" in ada.text


async def test_import_creates_a_list_and_reads_the_chosen_encoding(ada: Visit, web_engine: wiring.Engine) -> None:
    await ada.open("/imports")
    [form] = [form for form in ada.forms() if form.action == "/imports/file"]
    file = {"upload": ("people.csv", "email,name\nada@example.com,Dvořák\n".encode("cp1250"))}
    unnamed = form.filled({"list": "~new", "upload": None})
    ada.answer = await ada.client.post("/imports/file", data=unnamed, files=file)
    assert (ada.answer.status_code, "Enter a name for the new list." in ada.text) == (422, True)
    assert "Uploaded people.csv" in ada.words()
    [form] = [form for form in ada.forms() if form.action == "/imports/file"]
    sent = form.filled({"list": "~new", "newList": "Neue Bücher", "confirmed": "yes", "upload": None})
    ada.answer = await ada.client.post("/imports/file", data=sent, follow_redirects=True)
    assert "list Neue Bücher" in ada.words()
    assert "Dvořák" not in ada.words()
    await ada.press("Update preview", encoding="cp1250")
    assert "Dvořák" in ada.words()
    await ada.press("Start import")
    await web_engine.import_uploads.finish()
    [made] = await lists.list_all(web_engine.database, DEFAULT_TENANT)
    assert (made.list_key, made.name, made.requires_confirmation) == ("neue-buecher", "Neue Bücher", True)


async def test_new_list_gets_a_key_from_its_name(ada: Visit, web_engine: wiring.Engine) -> None:
    for name, key in (("Shop news", "shop-news"), ("Shop News!", "shop-news-2"), ("Новости", "novosti")):
        await ada.open("/lists/~new")
        await ada.press("Create list", name=name)
        assert ada.path == f"/lists/{key}"


async def test_list_is_edited_and_errors_appear_beside_fields(ada: Visit, web_engine: wiring.Engine) -> None:
    await a_list(web_engine.database)
    await ada.open("/lists/news")
    assert 'href="/lists/news/edit"' in ada.text
    # Cells carry their column name for narrow screens.
    assert '<td data-label="opt-in"' in (await ada.open("/lists")).text
    await ada.open("/lists/news/edit")
    await ada.press("Save list", 422, name="N" * 201, description="Twice a month")
    assert 'id="name-error"' in ada.text
    assert 'value="Twice a month"' in ada.text
    await ada.press("Save list", name="Shop news", requiresConfirmation="yes", isPublic="no")
    assert (ada.path, ada.flash) == ("/lists/news", "List saved.")
    assert "Double opt-in" in ada.text
    assert "Private: shown to its subscribers only" in ada.text
    assert await actions_on(web_engine, "news") == ["list.edit"]
    await ada.open("/lists/news/edit")
    await ada.press("Save list")
    assert await actions_on(web_engine, "news") == ["list.edit"]  # nothing changed
    await ada.open("/lists/none/edit", 404)


async def test_administrator_resets_password_and_second_factor(ada: Visit, web_engine: wiring.Engine) -> None:
    await web_engine.users.create("grace", PASSWORD, Role.EDITOR, actor="test")
    await ada.open("/settings/users")
    assert 'href="/settings/users/grace"' in ada.text
    await ada.open("/settings/users/grace")
    await ada.press("Reset password", 422, password="short")
    assert 'id="password-error"' in ada.text
    await ada.press("Reset password", password="another horse battery")
    assert "Password of grace changed" in ada.flash
    async with a_visit(create_app(web_engine), "grace", "another horse battery") as grace:
        await grace.open("/account")
        await grace.press("Set up two-factor authentication")
        shown = re.search(r"<code>([A-Z2-7]{32})</code>", grace.text)
        assert shown is not None
        now = web_engine.clock.now() // 1_000
        await grace.press("Turn on", code=pyotp.TOTP(shown[1]).at(now))
    await ada.open("/settings/users/grace")
    await ada.press("Turn off")
    assert not (await web_engine.users.find("grace")).has_second_factor
    assert (await actions_on(web_engine, "grace"))[-1] == "user_second_factor_gone"
    await ada.open("/settings/users/grace")
    await ada.press("Disable user")
    await ada.press("Enable")
    assert (await web_engine.users.find("grace")).disabled_at is None


async def test_tracking_of_a_tenant_is_edited(ada: Visit, web_engine: wiring.Engine) -> None:
    await ada.open("/settings/tracking")
    await ada.press("Save tracking", 422, tracking="anonymous", tracking_host="click.example.com")
    assert "The tracking host must be a URL" in ada.words()
    await ada.press("Save tracking", tracking="anonymous", tracking_host="https://click.example.com/")
    assert "Tracking saved." in ada.words()
    tenant = await tenants.find(web_engine.database, "default")
    assert (tenant.tracking, tenant.tracking_host) == ("anonymous", "https://click.example.com")
    await ada.press("Save tracking", tracking="", tracking_host="")
    tenant = await tenants.find(web_engine.database, "default")
    assert (tenant.tracking, tenant.tracking_host) == (None, None)


async def test_template_with_loop_is_previewed_with_one_row(ada: Visit, web_engine: wiring.Engine) -> None:
    html = "<p>{{ order }}</p>{% for item in items %}<p>{{ item.name }}: {{ item.price }}</p>{% endfor %}"
    await web_engine.templates.put(DEFAULT_TENANT, "receipt", subject="Yours", html=html, text=None)
    await ada.open("/templates/receipt")
    assert "fails" not in ada.text
    await ada.open("/templates/receipt/mail")
    assert "<p>[order]</p><p>[name]: [price]</p>" in ada.text


# Webhooks.


async def test_webhook_is_edited_rotated_and_deleted(ada: Visit, web_engine: wiring.Engine) -> None:
    made, first = await web_engine.webhook_endpoints.create(DEFAULT_TENANT, WebhookEndpointInput(HOOK), actor="test")
    path = f"/settings/webhooks/{made.webhook_id}"
    await ada.open(f"{path}/edit")
    await ada.press("Save webhook", 422, url="http://plain.example.com", description="orders")
    assert 'id="url-error"' in ada.text
    await ada.press("Save webhook", url=f"{HOOK}/2", types=["bounce", "SENT"])
    assert ada.path == path
    found = await web_engine.webhook_endpoints.find(made.webhook_id, tenant_id=DEFAULT_TENANT)
    assert (found.url, found.description, sorted(found.types)) == (f"{HOOK}/2", "orders", ["SENT", "bounce"])
    await ada.press("Rotate secret")
    shown = re.search(r"<code>(whsec_[\w+/=-]+)</code>", ada.text)
    assert shown is not None
    assert shown[1] != first
    assert shown[1] not in (await ada.open(path)).text
    await ada.press("Delete webhook")
    assert ada.flash == "Webhook deleted."
    await ada.open(path, 404)
    assert await actions_on(web_engine, made.webhook_id) == [
        "webhook.create",
        "webhook.edit",
        "webhook.rotate",
        "webhook.remove",
    ]


async def test_shutdown_waits_for_live_rendering(bench: Bench, clock: ManualClock) -> None:
    live, may_answer, answered = LiveUpdates(bench.database, clock), asyncio.Event(), []

    async def look() -> bytes:
        await may_answer.wait()
        answered.append("yes")
        return b"{}"

    async def is_welcome() -> bool:
        return True

    events = live.stream("it", look, is_welcome, event="parts")
    await anext(events)
    listening = asyncio.create_task(anext(events))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    listening.cancel()  # the browser disconnects
    finishing = asyncio.create_task(live.finish())
    await asyncio.wait([listening])
    assert not finishing.done()
    may_answer.set()
    await finishing
    assert answered == ["yes"]


async def test_listeners_of_a_page_keep_their_own_form_tokens(web_engine: wiring.Engine) -> None:
    await web_engine.users.create("ada", PASSWORD, Role.VIEWER, actor="test")
    app, events, tokens = create_app(web_engine), [], []
    for _ in range(2):
        async with a_visit(app) as visit:
            cookie = "; ".join(f"{name}={value}" for name, value in visit.client.cookies.items())
        headers = [(b"cookie", cookie.encode()), (b"host", b"mail.example")]
        request = Request({"type": "http", "app": app, "method": "GET", "path": "/", "headers": headers})
        visitor = await visitor_of(request, Role.VIEWER)

        async def parts(token: str = visitor.form_token) -> dict[str, str]:
            return {"header": f'<input value="{token}">'}

        response = stream(request, visitor, "page", parts)
        assert isinstance(response, StreamingResponse)
        events.append(response.body_iterator)
        tokens.append(visitor.form_token)
        await anext(events[-1])  # type: ignore[arg-type]
    for listened, token in zip(events, tokens, strict=True):  # The second listener gets the rendering of the first.
        assert token in str(await anext(listened))  # type: ignore[arg-type]


# Articles, notifications, mailouts.


async def test_exported_article_can_be_imported_again(ada: Visit, bench: Bench, web_engine: wiring.Engine) -> None:
    written = await write_slices(bench, *the_slices())
    key = written[0].article_key
    await ada.open(f"/articles/{key}")
    assert f'href="/articles/{key}/slices.zip"' in ada.text
    answer = await ada.client.get(f"/articles/{key}/slices.zip")
    assert answer.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
        files = {name: packed.read(name) for name in packed.namelist()}
    assert len(files) == len(written)
    await ada.open("/articles/~import")
    [form] = [each for each in ada.forms() if "files" in each.named]
    changed = {name: content.replace(b"Ohio", b"OHIO") for name, content in files.items()}
    sent = [("files", (name, content, "text/markdown")) for name, content in changed.items()]
    hidden = {name: value for name, value in form.fields if name != "files"}
    taken = await ada.client.post(str(form.action), data=hidden, files=sent, follow_redirects=True)
    assert taken.status_code == 200, taken.text
    again = {each.slice_id: each.body_md for each in await web_engine.slices.list_slices(DEFAULT_TENANT, key)}
    assert again == {each.slice_id: each.body_md.replace("Ohio", "OHIO") for each in written}


async def test_notifications_are_filtered_by_type_and_requeued(
    engine: DatabaseAddress, clock: ManualClock, tmp_path: Path
) -> None:
    queue = f"sqlite:///{tmp_path}/queue.db"
    await make_tables(queue)
    async with a_queue_setup(engine.url, queue, None, clock, notify_kinds=EXAMPLES / "kinds.toml") as stand:
        for _ in range(3):
            await stand.owner.notification()
        lamp = {"eventType": "back-in-stock", "variables": {"product": "Lamp", "price": "20"}}
        await stand.owner.notification(payload=lamp, event={"status_before": "SoldOut", "status_after": "InStock"})
        await stand.round(ScriptedProvider(REFUSAL, REFUSAL, REFUSAL, REFUSAL))
        assert await stand.owner.statuses() == {"failed": 4}
        opener = notification_service_opener(stand.bench.engine.settings, stand.bench.database, clock)
        database = stand.bench.database
        web_engine = an_engine(database, clock, base_url=HOME, open_notifications=opener)
        await web_engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
        async with a_visit(create_app(web_engine)) as ada:
            await ada.open("/notifications/1")
            await ada.press("Requeue notification")
            assert ada.flash == "Notification requeued."
            assert (await stand.owner.statuses()) == {"pending": 1, "failed": 3}
            await ada.open("/notifications?show=failed")
            await ada.press("Requeue all failed")
            assert ada.flash == "3 notifications requeued."
            assert (await stand.owner.statuses()) == {"pending": 4}
            for kind, readers in (("open-seat", {1, 2, 3}), ("back-in-stock", {4}), ("", {1, 2, 3, 4})):
                await ada.open(f"/notifications?kind={kind}&show=pending")
                assert {int(each) for each in re.findall(r">reader(\d)@", ada.text)} == readers, kind


async def test_mailout_report_is_downloaded(engine: DatabaseAddress) -> None:
    async with a_mailout_bench(engine.url) as mailouts:
        mailouts.subscribe("ada@example.com", "grace@example.com")
        run = await mailouts.finish(await mailouts.send(mailouts.page()))
        bench: Any = mailouts.bench
        web_engine = an_engine(bench.database, bench.clock, base_url=HOME)
        await web_engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
        async with a_visit(create_app(web_engine)) as ada:
            await ada.open("/mailouts")
            await ada.open(f"/mailouts/{run.mailout_id}")
            assert f'href="/mailouts/{run.mailout_id}/report.csv"' in ada.text
            answer = await ada.client.get(f"/mailouts/{run.mailout_id}/report.csv")
            rows = list(csv.DictReader(io.StringIO(answer.text)))
            assert [(row["email"], row["status"]) for row in rows] == [
                ("ada@example.com", "SENT"),
                ("grace@example.com", "SENT"),
            ]
            # Another one waits for Notion; the page shows the reason.
            waiting = await web_engine.mailout_runs.accept(
                DEFAULT_TENANT, "0123456789abcdef0123456789abcdef", actor="grace"
            )
            held = await web_engine.mailout_runs.claim(waiting)
            assert held is not None
            await held.postpone("NOTION_UNAVAILABLE", "Notion answered 503: come back later.")
            await ada.open(f"/mailouts/{waiting.mailout_id}")
            assert "Notion answered 503: come back later. <code>NOTION_UNAVAILABLE</code>; next attempt" in ada.text
