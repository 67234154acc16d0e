"""Opens and clicks from the email to the report."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import orjson
import pytest
from sqlalchemy import delete, select, update

from mailwright.access.roles import Role
from mailwright.audience.responses import SETTLES_AFTER
from mailwright.audience.segments import audience_query
from mailwright.content.tracked_links import MAX_URL_LENGTH
from mailwright.domain.clock import DAY, HOUR, SECOND, ManualClock
from mailwright.domain.errors import NotDurable
from mailwright.domain.report import Report
from mailwright.domain.states import EventType
from mailwright.events.outbound.dispatcher import WebhookDispatcher
from mailwright.events.outbound.endpoints import WebhookEndpointInput, WebhookEndpoints
from mailwright.events.tracking.spool import FinishedFile, Spool, TrackedHit
from mailwright.outbox.tenants import change as change_tenant
from mailwright.providers.http import HttpClient, addresses_of
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.storage.database import Database
from mailwright.storage.tables import campaigns, contacts, events, lists, messages, templates, tenants
from mailwright.web.app import create_app
from tests.api import an_engine, client_of
from tests.campaigns import a_list, join
from tests.sequences import SequenceBench
from tests.standins.http import HttpStandIn
from tests.tracking import BODY, BROWSER, SHOP, Tracking, a_tracking, a_tracking_dashboard, links_of, pixel_of, text_of

ANN = "ann@example.com"


@pytest.fixture
async def tracking(database: Database, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Tracking]:
    async with a_tracking(database, clock, tmp_path) as tracking:
        yield tracking


async def test_click_of_a_consenting_contact_reaches_the_report(tracking: Tracking) -> None:
    campaign_id = await tracking.send(ANN)
    offers, leave = links_of(tracking.content_to(ANN))
    assert offers.startswith("http://mail.example/t/")
    assert leave.startswith("http://mail.example/unsubscribe?")
    answer = await tracking.visit(offers)
    assert (answer.status_code, answer.headers["location"]) == (302, SHOP)
    report = await tracking.report(campaign_id)
    assert report["clicks"] == {"people": 1, "machines": 0, "total": 1, "machineTotal": 0}
    assert report["links"] == [{"url": SHOP, "people": 1, "machines": 0, "total": 1, "machineTotal": 0}]


async def test_open_of_a_consenting_contact_is_counted_once(tracking: Tracking) -> None:
    campaign_id = await tracking.send(ANN)
    pixel = pixel_of(tracking.content_to(ANN))
    assert pixel is not None
    for _ in range(2):
        answer = await tracking.visit(pixel)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "image/gif")
    assert (await tracking.report(campaign_id))["opens"] == {"people": 1, "machines": 0, "total": 2, "machineTotal": 0}


async def test_open_and_click_of_a_campaign_start_sequences(tracking: Tracking) -> None:
    bob = "bob@example.com"
    campaign_id, sequences = await tracking.send(ANN, bob), SequenceBench(tracking.bench)
    opening = await sequences.start(trigger={"opens": campaign_id})
    clicking = await sequences.start(trigger={"clicks": campaign_id, "url": SHOP})
    other = await sequences.start(trigger={"clicks": campaign_id, "url": "https://shop.example/other"})
    pixel = pixel_of(tracking.content_to(bob))
    assert pixel is not None
    await tracking.visit(pixel)
    await tracking.visit(links_of(tracking.content_to(ANN))[0])
    tracking.clock.advance(SETTLES_AFTER)
    await sequences.watch()
    entered = [[each.email for each in await sequences.enrolments(key)] for key in (opening, clicking, other)]
    assert entered == [[bob], [ANN], []]


@pytest.mark.promise("tracking-needs-consent")
@pytest.mark.parametrize("consents", [None, False])
async def test_recipient_without_consent_gets_no_tracked_link(tracking: Tracking, consents: bool | None) -> None:
    await tracking.send(ANN, consents=consents)
    content = tracking.content_to(ANN)
    assert SHOP in links_of(content)
    assert pixel_of(content) is None
    assert b"/t/" not in content


@pytest.mark.promise("tracking-needs-consent")
@pytest.mark.parametrize("level", ["tenant", "list", "campaign"])
@pytest.mark.parametrize("mode", ["off", "nonsense"])
async def test_strictest_level_decides(tracking: Tracking, level: str, mode: str) -> None:
    await a_list(tracking.bench.database)
    changes = {}
    if level == "campaign":
        changes = {"tracking": "off"}
    else:
        async with tracking.bench.database.write() as tx:
            await tx.execute(update({"tenant": tenants, "list": lists}[level]).values(tracking=mode))
    await tracking.send(ANN, **changes)
    assert b"/t/" not in tracking.content_to(ANN)


@pytest.mark.promise("tracking-needs-consent")
async def test_anonymous_links_are_the_same_for_everyone(tracking: Tracking) -> None:
    body = f'{BODY}<p><a href="https://shop.example/{{{{ name }}}}">You</a></p>'
    campaign_id = await tracking.send(ANN, "bob@example.com", consents=None, tracking="anonymous", body=body)
    ann, bob = (tracking.content_to(name) for name in (ANN, "bob@example.com"))
    assert links_of(ann)[0] == links_of(bob)[0] != SHOP
    assert pixel_of(ann) == pixel_of(bob)
    assert links_of(ann)[2] == "https://shop.example/Ann"
    assert (await tracking.visit(links_of(ann)[0])).headers["location"] == SHOP
    await tracking.visit(pixel_of(ann) or "")
    report = await tracking.report(campaign_id)
    assert report["clicks"] == {"people": 0, "machines": 0, "total": 1, "machineTotal": 0}
    assert report["opens"]["total"] == 1
    async with tracking.bench.database.read() as tx:
        assert not await tx.execute(select(events.c.id).where(events.c.type.in_(["open", "click"])))


@pytest.mark.parametrize("level", ["tenant", "campaign"])
async def test_switched_off_tracking_stops_anonymous_totals(tracking: Tracking, level: str) -> None:
    campaign_id = await tracking.send(ANN, consents=None, tracking="anonymous")
    async with tracking.bench.database.write() as tx:
        if level == "tenant":
            await tx.execute(update(tenants).values(tracking="off"))
        else:
            [row] = await tx.execute(select(campaigns.c.definition))
            definition = {**orjson.loads(row.definition), "tracking": "off"}
            await tx.execute(update(campaigns).values(definition=orjson.dumps(definition).decode()))
    assert (await tracking.visit(links_of(tracking.content_to(ANN))[0])).headers["location"] == SHOP
    assert (await tracking.report(campaign_id))["clicks"]["total"] == 0


async def test_anonymous_click_right_after_sending_is_a_machine(tracking: Tracking) -> None:
    campaign_id = await tracking.send(ANN, consents=None, tracking="anonymous")
    link = links_of(tracking.content_to(ANN))[0]
    await tracking.request(link)
    await tracking.visit(link)
    clicks = (await tracking.report(campaign_id))["clicks"]
    assert (clicks["total"], clicks["machineTotal"]) == (1, 1)


async def test_contact_who_refused_is_not_counted_anonymously(tracking: Tracking) -> None:
    await tracking.send(ANN, consents=False, tracking="anonymous")
    content = tracking.content_to(ANN)
    assert (links_of(content)[0], pixel_of(content)) == (SHOP, None)


async def test_withdrawn_consent_stops_recording_and_keeps_the_link(tracking: Tracking) -> None:
    campaign_id = await tracking.send(ANN)
    await tracking.consent(ANN, given=False)
    answer = await tracking.visit(links_of(tracking.content_to(ANN))[0])
    assert answer.headers["location"] == SHOP
    assert (await tracking.report(campaign_id))["clicks"]["total"] == 0


async def test_personal_link_leads_to_the_finished_url(tracking: Tracking) -> None:
    link = "https://shop.example/{{ plan }}?who={{ name }}&amp;x=1#top"
    await tracking.send(ANN, body=f'<p><a href="{link}">You</a> <a href="{{{{ unsubscribe_url }}}}">Leave</a></p>')
    sent = links_of(tracking.content_to(ANN))[0]
    answer = await tracking.visit(sent)
    assert answer.headers["location"] == "https://shop.example/pro?who=Ann&x=1#top"


async def test_links_in_loops_lead_to_their_targets(tracking: Tracking) -> None:
    loop = '{% for item in items %}<a href="https://shop.example/{{ item }}">{{ item }}</a>{% endfor %}'
    body = f'{loop}<p><a href="{SHOP}">All</a> <a href="{{{{ unsubscribe_url }}}}">Leave</a></p>'
    await tracking.send(ANN, body=body, variables={"items": ["tea", "hat"]})
    *tracked, leave = links_of(tracking.content_to(ANN))
    assert leave.startswith("http://mail.example/unsubscribe?")
    assert [(await tracking.visit(link)).headers["location"] for link in tracked] == [
        "https://shop.example/tea",
        "https://shop.example/hat",
        SHOP,
    ]


UTM_BODY = (
    f'<p><a href="{SHOP.replace("&", "&amp;")}">Offers</a>'
    ' <a href="https://shop.example/{{ name }}?a=1#top">You</a>'
    ' <a href="https://shop.example/?utm_source=own">Own</a> <a href="mailto:a@shop.example">Write to us</a>'
    ' <a href="#top">Top</a> <a href="{{ unsubscribe_url }}">Leave</a></p>'
)


@pytest.mark.parametrize(
    ("mode", "consents"), [("off", True), ("anonymous", False), ("individual", None), ("individual", False)]
)
@pytest.mark.parametrize("is_flat", [True, False], ids=["flat", "with conditions"])
async def test_utm_parameters_are_added_without_tracking(
    database: Database, clock: ManualClock, tmp_path: Path, mode: str, consents: bool | None, is_flat: bool
) -> None:
    async with a_tracking(database, clock, tmp_path, tracking=mode) as tracking:
        body = UTM_BODY if is_flat else f"{{% if name %}}{UTM_BODY}{{% endif %}}"
        await tracking.send(ANN, consents=consents, body=body, utm={"source": "our news"})
        content = tracking.content_to(ANN)
        *links, leave = links_of(content)
        assert links == [
            "https://shop.example/offers?colour=red&size=4&utm_source=our+news#sale",
            "https://shop.example/Ann?a=1&utm_source=our+news#top",
            "https://shop.example/?utm_source=own",
            "mailto:a@shop.example",
            "#top",
        ]
        assert leave.startswith("http://mail.example/unsubscribe?")
        assert "utm_" not in leave
        assert pixel_of(content) is None
        assert text_of(content).split() == [
            *("Offers", f"({links[0]})", "You", f"({links[1]})", "Own", f"({links[2]})"),
            *("Write", "to", "us", "(a@shop.example)", "Top", "Leave", f"({leave})"),
        ]


@pytest.mark.parametrize("mode", ["off", "anonymous", "individual"])
@pytest.mark.parametrize("is_flat", [True, False], ids=["flat", "with conditions"])
async def test_utm_parameters_are_added_to_links_too_long_to_track(
    database: Database, clock: ManualClock, tmp_path: Path, mode: str, is_flat: bool
) -> None:
    long = f"https://shop.example/search?q={'a' * MAX_URL_LENGTH}"
    body = f'<a href="{long}#top">All</a> <a href="{long}{{{{ name }}}}">Yours</a>'
    async with a_tracking(database, clock, tmp_path, tracking=mode) as tracking:
        await tracking.send(
            ANN, body=body if is_flat else f"{{% if name %}}{body}{{% endif %}}", utm={"source": "news"}
        )
        found = [link for link in links_of(tracking.content_to(ANN)) if link.startswith("https://shop.example")]
        assert found == [f"{long}&utm_source=news#top", f"{long}Ann&utm_source=news"]


async def test_utm_parameters_are_added_to_personal_links_in_anonymous_mode(
    database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    async with a_tracking(database, clock, tmp_path, tracking="anonymous") as tracking:
        await tracking.send(ANN, body=UTM_BODY, utm={"source": "news"})
        offers, personal, *_ = links_of(tracking.content_to(ANN))
        assert offers.startswith("http://mail.example/t/")
        assert personal == "https://shop.example/Ann?a=1&utm_source=news#top"


async def test_utm_parameters_are_added_to_tracked_links(tracking: Tracking) -> None:
    await tracking.send(ANN, utm={"source": "our news", "medium": "email"})
    content = tracking.content_to(ANN)
    answer = await tracking.visit(links_of(content)[0])
    expected = "https://shop.example/offers?colour=red&size=4&utm_source=our+news&utm_medium=email#sale"
    assert answer.headers["location"] == expected
    assert f"({expected})" in text_of(content)


async def test_machine_clicks_are_counted_apart(tracking: Tracking) -> None:
    campaign_id = await tracking.send(ANN)
    link = links_of(tracking.content_to(ANN))[0]
    await tracking.request(link)  # at once, as a scanner does
    await tracking.visit(link, "Barracuda Sentinel (EE)")
    report = await tracking.report(campaign_id)
    assert report["clicks"] == {"people": 0, "machines": 1, "total": 0, "machineTotal": 2}
    assert report["results"]["clicked"] == 0


async def test_head_is_redirected_and_not_counted(tracking: Tracking) -> None:
    await tracking.send(ANN)
    answer = await tracking.request(links_of(tracking.content_to(ANN))[0], method="HEAD")
    assert (answer.status_code, answer.headers["location"]) == (302, SHOP)
    assert await tracking.drain() == 0


async def test_redirect_is_private(tracking: Tracking) -> None:
    await tracking.send(ANN)
    answer = await tracking.request(links_of(tracking.content_to(ANN))[0])
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "set-cookie" not in answer.headers


@pytest.mark.promise("tracking-no-open-redirect")
@pytest.mark.parametrize("language", ["en", "ru", "pt"])
async def test_broken_token_shows_a_page(tracking: Tracking, language: str) -> None:
    await tracking.send(ANN)
    link = links_of(tracking.content_to(ANN))[0]
    flipped = link[:-1] + ("A" if link[-1] != "A" else "B")
    for broken in (link[:-5], flipped, f"{link}AAAA", "http://mail.example/t/", "http://mail.example/t/ж"):
        answer = await tracking.request(broken, **{"accept-language": language, "accept": "text/html"})
        assert answer.status_code == 404
        assert "location" not in answer.headers
        assert answer.headers["content-language"] == language
    assert await tracking.drain() == 0


async def test_link_expires_after_more_than_a_year(tracking: Tracking) -> None:
    await tracking.send(ANN)
    link = links_of(tracking.content_to(ANN))[0]
    tracking.clock.advance(366 * DAY)
    assert (await tracking.request(link)).status_code == 302
    tracking.clock.advance(60 * DAY)
    assert (await tracking.request(link)).status_code == 404


@pytest.mark.promise("tracking-nothing-lost")
@pytest.mark.parametrize("mode", ["individual", "anonymous"])
async def test_link_of_a_deleted_campaign_works_for_a_year(tracking: Tracking, mode: str) -> None:
    await tracking.send(ANN, tracking=mode)
    link = links_of(tracking.content_to(ANN))[0]
    async with tracking.bench.database.write() as tx:
        for table in (campaigns, messages, events, templates, contacts):
            await tx.execute(delete(table))
    for days in (1, 364):
        tracking.clock.advance(days * DAY)
        assert (await tracking.request(link)).headers["location"] == SHOP
        assert await tracking.drain() == 1  # The click belongs to no message, and nothing fails.


async def test_transactional_message_is_tracked_only_on_request(tracking: Tracking) -> None:
    await join(tracking.bench.database, [ANN], consents_to_tracking=True)
    html = f'<p><a href="{SHOP}">Offers</a></p>'
    for mode in (None, "anonymous", "individual"):
        await tracking.api.send(to=ANN, html=html, tracking=mode)
    await tracking.bench.drain(tracking.provider)
    plain, anonymous, individual = (links_of(sent.content)[0] for sent in tracking.provider.messages)
    assert plain == anonymous == SHOP
    assert (await tracking.visit(individual)).headers["location"] == SHOP


async def test_message_with_copies_is_not_tracked(tracking: Tracking) -> None:
    await join(tracking.bench.database, [ANN], consents_to_tracking=True)
    html = f'<p><a href="{SHOP}">Offers</a></p>'
    await tracking.api.send(to=ANN, html=html, tracking="individual", cc=["bob@example.com"])
    await tracking.bench.drain(tracking.provider)
    assert links_of(tracking.provider.messages[0].content) == [SHOP]


async def test_tenant_has_its_own_tracking_host(tracking: Tracking) -> None:
    await change_tenant(tracking.bench.database, "default", tracking_host="https://click.example.com")
    await tracking.send(ANN)
    assert links_of(tracking.content_to(ANN))[0].startswith("https://click.example.com/t/")


async def test_switched_off_installation_redirects_without_recording(
    tracking: Tracking, database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    await tracking.send(ANN)
    link = links_of(tracking.content_to(ANN))[0]
    engine = an_engine(database, clock, tracking="off", tracking_spool=tmp_path)
    async with client_of(create_app(engine)) as client:
        assert (await client.get(link)).headers["location"] == SHOP
    assert await tracking.drain() == 0
    await engine.close()


@pytest.mark.promise("tracking-nothing-lost")
@pytest.mark.both_engines
async def test_redirects_and_records_without_the_database(tracking: Tracking, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign_id = await tracking.send(ANN)
    await tracking.api.engine.redirects.warm()
    link = links_of(tracking.content_to(ANN))[0]
    tracking.clock.advance(HOUR)
    with monkeypatch.context() as outage:
        outage.setattr(Database, "read", _unavailable)
        outage.setattr(Database, "transact", _unavailable)
        assert (await tracking.request(link)).headers["location"] == SHOP
        with pytest.raises(NotDurable):
            await tracking.drain()
    await tracking.drain()
    assert (await tracking.report(campaign_id))["clicks"]["people"] == 1


async def test_unknown_link_during_an_outage_asks_to_retry(tracking: Tracking, monkeypatch: pytest.MonkeyPatch) -> None:
    await tracking.send(ANN)
    monkeypatch.setattr(Database, "read", _unavailable)
    answer = await tracking.request(links_of(tracking.content_to(ANN))[0], accept="text/html")
    assert answer.status_code == 503


async def test_interrupted_drain_counts_everything_once(
    tracking: Tracking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign_id = await tracking.send(ANN)
    anonymous = await tracking.send("bob@example.com", tracking="anonymous")
    tracking.clock.advance(HOUR)
    for email in (ANN, "bob@example.com"):
        await tracking.request(links_of(tracking.content_to(email))[0])
    with monkeypatch.context() as killed:  # after everything was stored, before the file was deleted
        killed.setattr(FinishedFile, "delete", _unavailable)
        with pytest.raises(NotDurable):
            await tracking.drain()
    [file] = tmp_path.glob("*.spool")
    file.write_bytes(file.read_bytes() + b'[1, 2, "cut')
    await tracking.drain()
    assert (await tracking.report(campaign_id))["clicks"]["total"] == 1
    assert (await tracking.report(anonymous))["clicks"]["total"] == 1
    assert not list(tmp_path.glob("*.spool"))


async def test_spool_of_a_living_process_is_left_alone(tracking: Tracking, tmp_path: Path) -> None:
    other = Spool(tmp_path)
    other.append(TrackedHit(1, None, None, None, is_machine=False))
    assert await tracking.drain() == 0
    other.close()
    assert await tracking.drain() == 1


async def test_click_that_the_provider_reports_too_counts_once(tracking: Tracking) -> None:
    campaign_id = await tracking.send(ANN)
    content = tracking.content_to(ANN)
    await tracking.visit(links_of(content)[0])
    [sent] = tracking.provider.messages
    report = Report("x", "ses", EventType.CLICKED, tracking.clock.now() + SECOND, ANN, sent.outbox_id)
    later = replace(report, key="y", at=tracking.clock.now() + HOUR)
    await tracking.api.engine.reports.receive([report])
    assert (await tracking.report(campaign_id))["clicks"]["total"] == 1
    await tracking.api.engine.reports.receive([later])
    assert (await tracking.report(campaign_id))["clicks"]["total"] == 2


async def test_segment_counts_clicks_of_people_only(tracking: Tracking) -> None:
    await tracking.send(ANN, "bob@example.com")
    await tracking.visit(links_of(tracking.content_to(ANN))[0])
    await tracking.visit(links_of(tracking.content_to("bob@example.com"))[0], "curl/8.5.0")
    async with tracking.bench.database.read() as tx:
        members = audience_query(1, ("news",), {"clicked": {}}, tracking.clock.now())
        rows = await tx.execute(members.add_columns(contacts.c.email))
    assert [row.email for row in rows] == [ANN]


@pytest.mark.parametrize("settings", [{"tracking": "anonymous"}, {"tracking": "off"}, {"consents": False}])
async def test_ab_test_that_nobody_can_measure_is_refused(tracking: Tracking, settings: dict[str, Any]) -> None:
    variants = [{"name": "A"}, {"name": "B", "subject": "Other"}]
    with pytest.raises(CampaignNotStartable, match="cannot be measured"):
        await tracking.send(ANN, "bob@example.com", experiment={"variants": variants, "testPercent": 50}, **settings)


async def test_ab_test_with_consenting_recipients_starts(tracking: Tracking) -> None:
    names = [f"reader{number}@example.com" for number in range(4)]
    variants = [{"name": "A"}, {"name": "B", "subject": "Other"}]
    await tracking.send(*names, experiment={"variants": variants, "testPercent": 50})
    assert len(tracking.provider.messages) == 2


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("individual", {"mode": "individual", "consenting": 1}),
        ("anonymous", {"mode": "anonymous", "consenting": 0}),
        ("off", {"mode": "off", "consenting": 0}),
    ],
)
async def test_check_shows_the_planned_tracking(tracking: Tracking, mode: str, expected: dict[str, Any]) -> None:
    await join(tracking.bench.database, [ANN], consents_to_tracking=True)
    await join(tracking.bench.database, ["bob@example.com"])
    campaign_id = await tracking.campaigns.create(tracking=mode)
    answer = await tracking.api.client.post(f"/v1/campaigns/{campaign_id}/preflight")
    assert answer.json()["tracking"] == expected


@pytest.mark.parametrize(
    ("mode", "tracked", "expected"),
    [
        ("individual", 1, ["those of the 1 recipient who consented.", "Clicked 1 100 %"]),
        (
            "anonymous",
            0,
            [
                "are counted without names.",
                "Clicks 1 in total",
                "does not show opens and clicks",
                "Other 2 – – – 0 0 0",
            ],
        ),
        (
            "off",
            0,
            ["this campaign were not tracked.", "Opened – not tracked Clicked – not tracked", "Other 2 – – – 0 0 0"],
        ),
    ],
)
@pytest.mark.both_engines
async def test_report_page_shows_the_tracking(
    tracking: Tracking, tmp_path: Path, mode: str, tracked: int, expected: list[str]
) -> None:
    await join(tracking.bench.database, ["bob@example.com"])
    campaign_id = await tracking.send(ANN, tracking=mode)
    await tracking.visit(links_of(tracking.content_to(ANN))[0])
    assert (await tracking.report(campaign_id))["tracked"] == tracked
    async with a_tracking_dashboard(tracking, tmp_path) as visit:
        words = (await visit.open(f"/campaigns/{campaign_id}/report/figures")).words()
    assert [each for each in expected if each not in words] == []
    assert "Deliveries and bounces come from the provider." in words


@pytest.mark.parametrize(
    ("level", "reason"),
    [
        ("tenant", "tracking is off for this tenant"),
        ("campaign", "tracking is off in this campaign"),
        ("lists", "tracking is off for the chosen lists"),
    ],
)
async def test_review_names_the_level_that_turned_tracking_off(
    tracking: Tracking, tmp_path: Path, level: str, reason: str
) -> None:
    await join(tracking.bench.database, [ANN], consents_to_tracking=True)
    campaign_id = await tracking.campaigns.create(**({"tracking": "off"} if level == "campaign" else {}))
    if level != "campaign":
        async with tracking.bench.database.write() as tx:
            await tx.execute(update({"tenant": tenants, "lists": lists}[level]).values(tracking="off"))
    async with a_tracking_dashboard(tracking, tmp_path, Role.ADMIN) as visit:
        words = (await visit.open(f"/campaigns/{campaign_id}/checks")).words()
        assert f"Opens and clicks are not tracked, because {reason}. Change tracking" in words
        words = (await visit.open("/lists/~new")).words()
    assert ("Tracking is off for this tenant" in words) is (level == "tenant")


async def test_timeline_of_a_click_names_url_and_machine(tracking: Tracking) -> None:
    await tracking.send(ANN)
    await tracking.visit(links_of(tracking.content_to(ANN))[0])
    [sent] = tracking.provider.messages
    answer = await tracking.api.client.get(f"/v1/email/{sent.outbox_id}")
    [click] = [each for each in answer.json()["events"] if each["type"] == "click"]
    shown = {name: click["metadata"][name] for name in ("source", "isMachine", "url")}
    assert shown == {"source": "tracking", "isMachine": False, "url": SHOP}


async def test_machine_click_is_marked_in_timeline_and_history(tracking: Tracking, tmp_path: Path) -> None:
    await tracking.send(ANN)
    await tracking.visit(links_of(tracking.content_to(ANN))[0], "Barracuda Sentinel (EE)")
    history = (await tracking.api.client.get(f"/v1/contacts/{ANN}/history")).json()["history"]
    [click] = [each for each in history if "click" in each["what"]]
    assert (click["what"], click["isMachine"]) == ("email click by a machine", True)
    assert [each for each in history if each["isMachine"]] == [click]
    [sent] = tracking.provider.messages
    async with a_tracking_dashboard(tracking, tmp_path) as visit:
        assert "Link clicked by a machine" in (await visit.open(f"/messages/{sent.outbox_id}")).words()
        assert "Email click by a machine" in (await visit.open(f"/contacts/{ANN}")).words()


@pytest.mark.parametrize(("agent", "is_machine"), [(BROWSER, False), ("GoogleImageProxy", True)])
async def test_webhook_receives_opens_and_clicks(tracking: Tracking, agent: str, is_machine: bool) -> None:
    database, clock = tracking.bench.database, tracking.clock
    await tracking.send(ANN)
    async with HttpStandIn() as receiver:
        endpoints = WebhookEndpoints(database, clock, allows_private=True)
        await endpoints.create(1, WebhookEndpointInput(f"{receiver.url}/hook", ("open", "click")), actor="test")
        content = tracking.content_to(ANN)
        await tracking.visit(pixel_of(content) or "", agent)
        await tracking.visit(links_of(content)[0], agent)
        dispatcher = WebhookDispatcher(database, clock, HttpClient(resolve=addresses_of), timeout_seconds=5.0)
        await dispatcher.dispatch_all()
        await dispatcher.close()
        received = {each.json()["type"]: each.json()["metadata"] for each in receiver.requests}
    assert {type_: each["isMachine"] for type_, each in received.items()} == {"open": is_machine, "click": is_machine}
    assert received["click"]["url"] == SHOP


def _unavailable(*_arguments: object) -> NoReturn:
    raise NotDurable
