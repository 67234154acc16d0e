"""The report of a campaign: figures, segments of recipients and the resend to those who did not open."""

import asyncio
import csv
import io
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from mailwright.access.roles import Role
from mailwright.domain.clock import DAY, HOUR, MINUTE, ManualClock
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.outbox.tallies import EventTallier
from mailwright.sources.campaigns.report_figures import load_figures
from mailwright.sources.campaigns.resend import TIME_TO_OPEN
from mailwright.storage.database import Database
from mailwright.storage.tables import messages
from mailwright.web.cache import CACHE_SECONDS, ResultCache
from mailwright.web.dashboard import campaigns_reports
from tests.campaigns import join
from tests.tracking import SHOP, Tracking, a_tracking, a_tracking_dashboard, links_of, pixel_of

ANN, BOB, EVE, DAN = "ann@gmail.com", "bob@gmail.com", "eve@corp.example", "dan@corp.example"
MACHINE = "Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)"


@pytest.fixture
async def tracking(database: Database, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Tracking]:
    async with a_tracking(database, clock, tmp_path) as tracking:
        yield tracking


async def _respond(tracking: Tracking) -> str:
    """Send a campaign: Ann opens and clicks, a machine opens for Bob, Eve bounces, and Dan does nothing."""
    campaign_id = await tracking.send(ANN, BOB, EVE, DAN)
    tracking.clock.advance(10 * MINUTE)
    await tracking.visit(pixel_of(tracking.content_to(ANN)) or "")
    await tracking.visit(links_of(tracking.content_to(ANN))[0])
    await tracking.visit(pixel_of(tracking.content_to(BOB)) or "", MACHINE)
    details = {"status": "5.1.1", "diagnosticCode": "550 no such user"}
    await _report(tracking, EVE, EventType.BOUNCED, ContactVerdict.HARD_BOUNCE, "Permanent", **details)
    return campaign_id


async def _report(
    tracking: Tracking, email: str, type_: EventType, verdict: ContactVerdict, kind: str | None = None, **details: Any
) -> None:
    async with tracking.bench.database.read() as tx:
        found = select(messages.c.outbox_id).where(messages.c.to_email == email).order_by(messages.c.id.desc())
        outbox_id = (await tx.execute(found))[0].outbox_id
    report = Report(f"{type_}-{email}", "ses", type_, tracking.clock.now(), email, outbox_id, None, verdict, kind)
    await tracking.api.engine.reports.receive([Report(**{**_fields(report), "metadata": details})])


def _fields(report: Report) -> dict[str, Any]:
    return {name: getattr(report, name) for name in Report.__slots__}


@pytest.mark.parametrize("is_tallied", [False, True])
async def test_report_has_domains_providers_delays_and_reasons(tracking: Tracking, is_tallied: bool) -> None:
    campaign_id = await _respond(tracking)
    if is_tallied:
        await EventTallier(tracking.bench.database, tracking.clock).add_existing()
    report = await tracking.report(campaign_id)
    shown = {
        each["name"]: (each["sent"], each["opened"], each["clicked"], each["bounced"]) for each in report["domains"]
    }
    assert shown == {"gmail.com": (2, 1, 1, 0), "corp.example": (2, 0, 0, 1)}
    assert [(each["name"], each["sent"], each["machineOpened"]) for each in report["providers"]] == [
        ("Gmail", 2, 1),
        ("Other", 2, 0),
    ]
    assert [(each["fromMinutes"], each["opened"]) for each in report["delays"] if each["opened"]] == [(10, 1)]
    assert [(each["fromMinutes"], each["clicked"]) for each in report["delays"] if each["clicked"]] == [(10, 1)]
    assert report["reasons"]["bounces"] == [
        {"name": "Permanent · 5.1.1", "recipients": 1, "example": "550 no such user"}
    ]
    groups = {"opened": 1, "didNotOpen": 1, "onlyMachines": 1, "notMeasured": 0}
    assert (report["tracked"], report["openGroups"]) == (4, groups)
    assert sum(each["sent"] for each in report["intervals"]) == 4


async def test_figures_agree_with_their_csv(tracking: Tracking) -> None:
    campaign_id = await _respond(tracking)
    answer = await tracking.api.client.get(f"/v1/campaigns/{campaign_id}/figures.csv")
    rows = list(csv.reader(io.StringIO(answer.text)))
    report = await tracking.report(campaign_id)
    assert rows[0] == ["section", "item", "figure", "value"]
    assert ["counts", "", "sent", str(report["counts"]["sent"])] in rows
    assert ["links", SHOP, "people", "1"] in rows
    assert ["domains", "gmail.com", "opened", "1"] in rows
    assert ["reasons.bounces", "Permanent · 5.1.1", "recipients", "1"] in rows
    assert ["delays", "10-30 min", "opened", "1"] in rows


async def test_report_compares_with_the_median_of_earlier_campaigns(tracking: Tracking) -> None:
    names = [f"reader{number}@example.com" for number in range(4)]
    earlier = []
    for opened in (0, 1, 2):
        fresh = names if not earlier else ()
        earlier.append(await tracking.send(*fresh))
        for sent in tracking.provider.messages[-4:][:opened]:
            await tracking.visit(pixel_of(sent.content) or "")
        tracking.clock.advance(HOUR)
    own = await tracking.send()
    for sent in tracking.provider.messages[-4:]:
        await tracking.visit(pixel_of(sent.content) or "")
    comparison = (await tracking.report(own))["comparison"]
    assert comparison["campaigns"] == 3
    rates = {each["name"]: (each["rate"], each["median"]) for each in comparison["rates"]}
    assert rates["opened"] == (1.0, 0.25)
    assert rates["bounced"] == (0.0, 0.0)
    assert rates["delivered"] == (None, None)
    assert (await tracking.report(earlier[0]))["comparison"]["campaigns"] == 0

    pages, cursor = [], ""
    while True:
        answer = (await tracking.api.client.get(f"/v1/reports?limit=3{cursor}")).json()
        pages += [each["campaignId"] for each in answer["campaigns"]]
        if answer["nextCursor"] is None:
            break
        cursor = f"&cursor={answer['nextCursor']}"
    assert pages == [own, *earlier[::-1]]
    text = (await tracking.api.client.get("/v1/reports/export.csv")).text
    assert [row["opened"] for row in csv.DictReader(io.StringIO(text))] == ["4", "2", "1", "0"]


RECIPIENTS = {
    "all": [ANN, BOB, DAN, EVE],
    "opened": [ANN],
    "clicked": [ANN],
    "did_not_open": [DAN],
    "bounced": [EVE],
    "sent": [ANN, BOB, DAN],
}


async def test_recipients_are_filtered_by_their_response(tracking: Tracking) -> None:
    campaign_id = await _respond(tracking)
    path = f"/v1/campaigns/{campaign_id}"
    for show, expected in RECIPIENTS.items():
        found = (await tracking.api.client.get(f"{path}/recipients?show={show}")).json()["recipients"]
        assert [each["email"] for each in found] == expected, show
        text = (await tracking.api.client.get(f"{path}/report.csv?show={show}")).text
        assert [row["email"] for row in csv.DictReader(io.StringIO(text))] == expected, show


BARS: list[tuple[dict[str, Any], list[str]]] = [
    ({"of": "sent"}, [ANN, BOB, DAN, EVE]),
    ({"of": "opened"}, [ANN]),
    ({"of": "clicked", "url": SHOP}, [ANN]),
    ({"of": "clicked", "url": "https://shop.example/other"}, []),
    ({"of": "engaged"}, [ANN]),
    ({"of": "did_not_open"}, [DAN]),
    ({"of": "bounced", "domain": "corp.example"}, [EVE]),
    ({"of": "bounced", "domain": "gmail.com"}, []),
    ({"of": "sent", "provider": "Gmail"}, [ANN, BOB]),
    ({"of": "sent", "provider": "Other"}, [DAN, EVE]),
    ({"of": "opened", "afterMinutes": 10, "beforeMinutes": 30}, [ANN]),
    ({"of": "opened", "beforeMinutes": 10}, []),
]


async def test_bar_of_a_chart_becomes_a_segment(tracking: Tracking) -> None:
    campaign_id = await _respond(tracking)
    keys = set()
    for bar, expected in BARS:
        made = await tracking.api.client.post(f"/v1/campaigns/{campaign_id}/segments", json=bar)
        assert made.status_code == 201, made.text
        again = await tracking.api.client.post(f"/v1/campaigns/{campaign_id}/segments", json=bar)
        key = made.json()["segmentKey"]
        assert again.json()["segmentKey"] == key
        members = (await tracking.api.client.get(f"/v1/segments/{key}/contacts")).json()["contacts"]
        assert [each["email"] for each in members] == expected, bar
        keys.add(key)
    assert len(keys) == len(BARS)


async def test_bar_with_a_wrong_bound_is_refused(tracking: Tracking) -> None:
    campaign_id = await _respond(tracking)
    for bar, field in (({"of": "opened", "url": SHOP}, "url"), ({"of": "sent", "afterMinutes": 1}, "afterMinutes")):
        answer = await tracking.api.client.post(f"/v1/campaigns/{campaign_id}/segments", json=bar)
        assert answer.status_code == 422
        assert field in answer.text


@pytest.mark.promise("campaign-each-once")
async def test_resend_reaches_only_those_who_did_not_open(tracking: Tracking) -> None:
    campaign_id = await _respond(tracking)
    await join(tracking.bench.database, ["new@example.com"], consents_to_tracking=True, tracking_consent_at=0)
    made = await _resend(tracking, campaign_id)
    assert made.status_code == 201, made.text
    draft = made.json()
    assert (draft["definition"]["resendOf"], draft["status"]) == (campaign_id, "DRAFT")
    before = len(tracking.provider.messages)
    await _start(tracking, draft["campaignId"])
    sent = tracking.provider.messages[before:]
    assert [message.recipients for message in sent] == [(DAN,)]
    assert b"Subject: Did you miss this?" in sent[0].content


@pytest.mark.promise("campaign-each-once")
@pytest.mark.parametrize("consents", [None, False])
async def test_recipient_without_consent_is_never_sent_again(tracking: Tracking, consents: bool | None) -> None:
    await join(tracking.bench.database, [ANN], consents_to_tracking=consents, tracking_consent_at=0)
    campaign_id = await tracking.send(DAN)
    await tracking.consent(ANN, given=True)  # after the email was sent, so that nobody knows whether it was opened
    report = await tracking.report(campaign_id)
    assert report["openGroups"] == {"opened": 0, "didNotOpen": 1, "onlyMachines": 0, "notMeasured": 1}
    before = len(tracking.provider.messages)
    await _start(tracking, (await _resend(tracking, campaign_id)).json()["campaignId"])
    assert [message.recipients for message in tracking.provider.messages[before:]] == [(DAN,)]


@pytest.mark.promise("campaign-each-once")
async def test_withdrawn_consent_excludes_from_the_resend(tracking: Tracking) -> None:
    campaign_id = await tracking.send(ANN, DAN)
    await tracking.consent(ANN, given=False)
    tracking.clock.advance(HOUR)
    await tracking.consent(ANN, given=True)
    assert (await tracking.report(campaign_id))["openGroups"]["didNotOpen"] == 1


@pytest.mark.promise("campaign-each-once")
async def test_recipient_who_opens_before_the_resend_is_excluded(tracking: Tracking) -> None:
    campaign_id = await tracking.send(ANN, DAN)
    draft = (await _resend(tracking, campaign_id)).json()["campaignId"]
    await tracking.visit(pixel_of(tracking.content_to(ANN)) or "")
    before = len(tracking.provider.messages)
    await _start(tracking, draft)
    assert [message.recipients for message in tracking.provider.messages[before:]] == [(DAN,)]


@pytest.mark.promise("campaign-each-once")
async def test_concurrent_resends_create_one_draft(tracking: Tracking) -> None:
    campaign_id = await tracking.send(ANN)
    answers = await asyncio.gather(*(_resend(tracking, campaign_id) for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409, 409]
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"ALREADY_RESENT"}
    [made] = [answer.json()["campaignId"] for answer in answers if answer.status_code == 201]
    await tracking.api.client.post(f"/v1/campaigns/{made}/cancel")
    assert (await _resend(tracking, campaign_id)).status_code == 201


async def test_duplicate_of_a_resend_is_an_ordinary_campaign(tracking: Tracking) -> None:
    made = (await _resend(tracking, await _respond(tracking))).json()["campaignId"]
    copied = await tracking.api.client.post(f"/v1/campaigns/{made}/duplicate", json={})
    assert copied.status_code == 201, copied.text
    definition = copied.json()["definition"]
    assert (definition.get("resendOf"), definition["lists"]) == (None, ["news"])
    assert (await tracking.api.client.post(f"/v1/campaigns/{made}/preflight")).json()["planned"] == 1


@pytest.mark.promise("campaign-each-once")
async def test_resend_waits_until_recipients_had_time_to_open(tracking: Tracking) -> None:
    campaign_id = await tracking.send(ANN, DAN, limits={"dailyLimit": 1})
    assert (await _resend(tracking, campaign_id)).status_code == 409  # still being sent
    tracking.clock.advance(DAY)
    await tracking.bench.drain(tracking.provider)
    await tracking.campaigns.run_scheduler()
    early = await tracking.api.client.post(f"/v1/campaigns/{campaign_id}/resend", json={"subject": "Again"})
    assert (early.status_code, "time to open it" in early.text) == (409, True)
    assert (await _resend(tracking, campaign_id)).status_code == 201


@pytest.mark.promise("campaign-each-once")
async def test_resend_is_not_started_while_the_original_grows(tracking: Tracking) -> None:
    campaign_id = await tracking.send(ANN)
    draft = (await _resend(tracking, campaign_id)).json()["campaignId"]
    await join(tracking.bench.database, [DAN], consents_to_tracking=True, tracking_consent_at=0)
    extended = await tracking.api.client.post(f"/v1/campaigns/{campaign_id}/extend", json={})
    assert extended.status_code == 200, extended.text
    refused = await tracking.api.client.post(f"/v1/campaigns/{draft}/start")
    assert refused.status_code == 409
    await tracking.campaigns.run_scheduler()
    await tracking.bench.drain(tracking.provider)
    tracking.clock.advance(TIME_TO_OPEN)
    before = len(tracking.provider.messages)
    await _start(tracking, draft)
    assert len(tracking.provider.messages) == before + 2


@pytest.mark.promise("campaign-each-once")
async def test_edited_resend_keeps_its_audience(tracking: Tracking) -> None:
    campaign_id = await _respond(tracking)
    draft = (await _resend(tracking, campaign_id)).json()
    changed = {name: value for name, value in draft["definition"].items() if name != "resendOf"}
    path = f"/v1/campaigns/{draft['campaignId']}"
    assert (await tracking.api.client.put(path, json=changed)).json()["definition"]["resendOf"] == campaign_id
    other = await tracking.api.client.put(path, json={**changed, "resendOf": draft["campaignId"]})
    assert other.status_code == 422
    check = (await tracking.api.client.post(f"{path}/preflight")).json()
    assert check["planned"] == 1


@pytest.mark.parametrize(("mode", "consents"), [("anonymous", True), ("off", True), ("individual", None)])
async def test_resend_needs_individual_opens(tracking: Tracking, mode: str, consents: bool | None) -> None:
    campaign_id = await tracking.send(ANN, consents=consents, tracking=mode)
    answer = await _resend(tracking, campaign_id)
    assert answer.status_code == 409
    assert "not recorded individually" in answer.text


async def test_resend_needs_another_subject_and_no_chain(tracking: Tracking) -> None:
    campaign_id = await tracking.send(ANN)
    assert (await _resend(tracking, campaign_id, "News")).status_code == 422
    again = (await _resend(tracking, campaign_id)).json()["campaignId"]
    await _start(tracking, again)
    answer = await _resend(tracking, again, "Third try")
    assert (answer.status_code, "itself" in answer.text) == (409, True)


async def _resend(tracking: Tracking, campaign_id: str, subject: str = "Did you miss this?") -> Any:
    tracking.clock.advance(TIME_TO_OPEN)
    return await tracking.api.client.post(f"/v1/campaigns/{campaign_id}/resend", json={"subject": subject})


async def _start(tracking: Tracking, campaign_id: str) -> None:
    started = await tracking.api.client.post(f"/v1/campaigns/{campaign_id}/start")
    assert started.status_code == 200, started.text
    await tracking.campaigns.run_scheduler()
    await tracking.bench.drain(tracking.provider)


# Pages.


async def test_figures_that_take_long_appear_when_they_are_ready(
    tracking: Tracking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign_id = await _respond(tracking)
    may_answer = asyncio.Event()

    async def load_slowly(*values: Any) -> Any:
        await may_answer.wait()
        return await load_figures(*values)

    monkeypatch.setattr(campaigns_reports, "load_figures", load_slowly)
    monkeypatch.setattr(ResultCache.__init__, "__defaults__", (CACHE_SECONDS, 0.01))
    async with a_tracking_dashboard(tracking, tmp_path) as visit:
        for part in ("figures", "opens"):
            path = f"/campaigns/{campaign_id}/report/{part}"
            assert "is counting the responses" in (await visit.open(path)).text
            assert f'hx-get="{path}" hx-trigger="load delay:3s" hx-target="#{part}"' in visit.text
        may_answer.set()
        for _ in range(500):
            if "is counting" not in (await visit.open(f"/campaigns/{campaign_id}/report/figures")).text:
                break
        assert "Time to open and click" in visit.text


async def test_report_page_shows_every_part(tracking: Tracking, tmp_path: Path) -> None:
    campaign_id = await _respond(tracking)
    async with a_tracking_dashboard(tracking, tmp_path) as visit:
        words = (await visit.open(f"/campaigns/{campaign_id}/report/figures")).words()
        opens = (await visit.open(f"/campaigns/{campaign_id}/report/opens")).words()
        listed = (await visit.open("/reports")).words()
    for part in (
        "Time to open and click",
        "10 min to 30 min 1 1",
        "Gmail 2 1 1 1",
        "Permanent · 5.1.1 1 550 no such user",
    ):
        assert part in words
    assert "Did not open 1" in opens
    assert "Only machines 1" in opens
    assert "Create draft" not in opens  # The visitor may only read.
    assert "News of January" in listed


async def test_click_map_shows_clicks_at_their_links(tracking: Tracking, tmp_path: Path) -> None:
    campaign_id = await _respond(tracking)
    async with a_tracking_dashboard(tracking, tmp_path) as visit:
        await visit.open(f"/campaigns/{campaign_id}/click-map")
        policy = visit.answer.headers["content-security-policy"]
    assert re.search(r'<a class="b" href="[^"]*"><span [^>]*>1 · 100 %</span>Offers</a>', visit.text)
    assert visit.text.count("<span ") == 1  # The unsubscribe link is never tracked.
    assert "sandbox" in policy
    assert "script-src" not in policy
    assert "default-src 'none'" in policy


@pytest.mark.both_engines
async def test_editor_creates_segment_and_resend_from_the_report(tracking: Tracking, tmp_path: Path) -> None:
    campaign_id = await _respond(tracking)
    tracking.clock.advance(TIME_TO_OPEN)
    async with a_tracking_dashboard(tracking, tmp_path, Role.EDITOR) as visit:
        await visit.open(f"/campaigns/{campaign_id}/report/opens")
        await visit.press("Create segment", nth=1)
        assert visit.path.startswith("/segments/did-not-open-")
        await visit.open(f"/campaigns/{campaign_id}/report/opens")
        await visit.press("Create draft", 422, subject="News")
        assert "had this subject already" in visit.words()
        await visit.press("Create draft", subject="Did you miss this?")
        assert "who did not open" in visit.text
        await visit.open(f"/campaigns/{campaign_id}/report/opens")
        await visit.press("Create draft", 409, subject="A third time")
        assert "already sent again" in visit.words()


async def test_recipients_page_filters_by_response(tracking: Tracking, tmp_path: Path) -> None:
    campaign_id = await _respond(tracking)
    async with a_tracking_dashboard(tracking, tmp_path) as visit:
        await visit.open(f"/campaigns/{campaign_id}/recipients?show=opened")
        assert (ANN in visit.text, DAN in visit.text) == (True, False)
        await visit.open(f"/campaigns/{campaign_id}/recipients?show=did_not_open")
        assert (ANN in visit.text, DAN in visit.text) == (False, True)
