"""HTTP API of campaigns: from draft to report, errors, and live progress."""

import asyncio
import csv
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import aclosing
from itertools import count as numbers
from typing import Any

import pytest

from mailwright.domain.clock import DAY, HOUR, ManualClock, isoformat
from mailwright.domain.errors import NotDurable
from mailwright.domain.ids import uuid7
from mailwright.web import live
from mailwright.web.live import GREETING, HEARTBEAT, UNAVAILABLE, LiveTiming, LiveUpdates
from tests.api import Api, an_api
from tests.builders import DEFAULT_TENANT, REFUSAL, UNKNOWN, Bench, a_bench
from tests.campaigns import BODY, NEWS, OPERATOR, a_definition, a_list, address_of, join
from tests.conftest import DatabaseAddress
from tests.standins.provider import ScriptedProvider

NOW = "2027-01-15T08:00:00.000Z"
PATH = "/v1/campaigns"


@pytest.fixture
async def api(bench: Bench, clock: ManualClock) -> AsyncIterator[Api]:
    await a_list(bench.database)
    async with an_api(bench.database, clock, tracking="individual") as api:
        yield api


def a_campaign(**changes: Any) -> dict[str, Any]:
    plain = {"name": "January", "content": {"subject": "News for {{ name }}", "body": BODY}, "lists": [NEWS]}
    return {name: value for name, value in {**plain, **changes}.items() if value is not None}


async def created(api: Api, **changes: Any) -> str:
    answer = await api.client.post(PATH, json=a_campaign(**changes))
    assert answer.status_code == 201, answer.text
    campaign_id: str = answer.json()["campaignId"]
    return campaign_id


async def acted(api: Api, campaign_id: str, action: str, body: Any = None, status: int = 200) -> Any:
    answer = await api.client.post(f"{PATH}/{campaign_id}/{action}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def shown(api: Api, campaign_id: str) -> Any:
    answer = await api.client.get(f"{PATH}/{campaign_id}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def readers(api: Api, count: int, **fields: Any) -> None:
    await join(api.engine.database, [address_of(number) for number in range(count)], **fields)


# From draft to report.


@pytest.mark.parametrize(("percent", "for_bulk"), [(10, 90), (0, 100)])
async def test_reserve_stands_beside_the_limit(
    engine: DatabaseAddress, clock: ManualClock, percent: int, for_bulk: int
) -> None:
    limits = {"rate_per_hour": 100, "reserve_percent": percent}
    async with a_bench(engine.url, clock, **limits) as bench, an_api(bench.database, clock, **limits) as api:
        await readers(api, 110)
        campaign_id = await created(api)
        limit = {"name": "rate_per_hour", "limit": 100, "forBulk": for_bulk, "reserved": percent, "domain": None}
        assert (await acted(api, campaign_id, "start"))["limits"] == [limit]
        poll = (await api.client.get("/mail/progress/poll/")).json()
        assert [each["for_bulk"] for each in poll["limits"]] == [for_bulk]
        forecast = (await api.client.get("/v1/forecast")).json()
        assert forecast["limits"] == [limit]
        sentence = "Hourly limit: 90 of 100 for bulk, 10 kept for transactional email."
        assert (sentence in forecast["assumptions"]) is bool(percent)
        provider = ScriptedProvider()
        await bench.drain(provider)
        assert len(provider.messages) == for_bulk


async def test_campaign_is_created_started_sent_and_reported(api: Api, bench: Bench, clock: ManualClock) -> None:
    await readers(api, 2)
    await join(api.engine.database, ["+1@example.com"], name="=cmd()")
    campaign_id = await created(api)
    draft = await shown(api, campaign_id)
    assert (draft["status"], draft["queueStatus"], draft["counts"], draft["createdAt"]) == ("DRAFT", None, None, NOW)
    assert draft["definition"]["content"]["subject"] == "News for {{ name }}"

    started = await acted(api, campaign_id, "start")
    assert (started["status"], started["queueStatus"], started["counts"]["planned"]) == ("READY", "PENDING", 3)
    assert {each["code"] for each in started["warnings"]} >= {"NO_POSTAL_ADDRESS"}
    clock.advance(1_000)
    await bench.drain(ScriptedProvider())

    sent = await shown(api, campaign_id)
    assert (sent["status"], sent["queueStatus"], sent["percent"], sent["failedCount"]) == ("SENT", "COMPLETED", 100, 0)
    [listed] = (await api.client.get(PATH)).json()["campaigns"]
    assert (listed["status"], listed["queueStatus"], listed["deferReason"]) == ("SENT", "COMPLETED", None)
    assert (sent["counts"]["sent"], sent["finishedAt"]) == (3, "2027-01-15T08:00:01.000Z")
    answer = await api.client.get(f"{PATH}/{campaign_id}/report.csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    head, *rows = csv.reader(io.StringIO(answer.text))
    assert head[:5] == ["email", "status", "error_message", "message_id", "sent_at"]
    assert [row[:3] + row[4:5] for row in rows] == [
        ["'+1@example.com", "SENT", "", "2027-01-15T08:00:01.000Z"],
        ["reader00000@example.com", "SENT", "", "2027-01-15T08:00:01.000Z"],
        ["reader00001@example.com", "SENT", "", "2027-01-15T08:00:01.000Z"],
    ]
    for row in rows:
        assert (await api.client.get(f"/v1/email/{row[3]}")).json()["to"] == row[0].lstrip("'")
    entries = (await api.client.get("/v1/audit-log", params={"subject": campaign_id})).json()["entries"]
    assert [(entry["actor"], entry["action"]) for entry in entries] == [
        ("api", "campaign.start"),
        ("api", "campaign.create"),
    ]


async def test_draft_is_editable_and_started_campaign_is_not(api: Api) -> None:
    await readers(api, 1)
    written = a_campaign(
        variables={"season": "spring"},
        limits={"ratePerHour": 10, "workingHours": "09:00-18:00", "timezone": "Europe/Lisbon"},
        scheduledAt="2027-03-01T10:00:00+01:00",
        **{"from": "Us <us@example.com>"},
    )
    campaign_id = await created(api, **written)
    definition = (await shown(api, campaign_id))["definition"]
    assert definition["scheduledAt"] == "2027-03-01T09:00:00.000Z"
    same = await api.client.put(f"{PATH}/{campaign_id}", json=definition)
    assert (same.status_code, same.json()["definition"]) == (200, definition)
    await api.client.put(f"{PATH}/{campaign_id}", json={**definition, "name": "February"})
    assert (await shown(api, campaign_id))["name"] == "February"
    copy = await acted(api, campaign_id, "duplicate", {}, 201)
    assert (copy["name"], copy["status"], copy["scheduledAt"]) == ("February (copy)", "DRAFT", None)
    assert (await acted(api, campaign_id, "duplicate", {"name": "Other"}, 201))["name"] == "Other"
    started = await acted(api, campaign_id, "start")
    assert (started["status"], started["queueStatus"], started["deferReason"]) == ("READY", "PENDING", "scheduled")
    assert started["deferredUntil"] == "2027-03-01T09:00:00.000Z"
    late = await api.client.put(f"{PATH}/{campaign_id}", json=definition)
    assert (late.status_code, late.json()["code"]) == (409, "NOT_POSSIBLE_NOW")
    await acted(api, campaign_id, "start", status=409)


async def test_campaign_list_is_paged_and_shows_deferrals(api: Api, clock: ManualClock) -> None:
    await readers(api, 1)
    ids = [await created(api, name=f"number {number}") for number in range(3)]
    await acted(api, ids[1], "start")
    await acted(api, ids[1], "pause")
    first = (await api.client.get(PATH, params={"limit": 2})).json()
    rest = (await api.client.get(PATH, params={"limit": 2, "cursor": first["nextCursor"]})).json()
    lines = [*first["campaigns"], *rest["campaigns"]]
    assert [line["campaignId"] for line in lines] == ids[::-1]
    assert [(line["status"], line["deferReason"], line["deferredUntil"]) for line in lines] == [
        ("DRAFT", None, None),
        ("PAUSED", "paused", None),
        ("DRAFT", None, None),
    ]
    assert rest["nextCursor"] is None
    assert (await api.stranger.get(PATH)).json() == {"campaigns": [], "nextCursor": None}


# Errors.


async def test_all_errors_of_a_definition_are_returned(api: Api) -> None:
    wrong = {
        "name": "a\nb",
        "content": {"body": "x", "subject": "x", "templateId": "y", "colour": "red"},
        "lists": ["No List"],
        "limits": {"ratePerHour": 0, "dailyLimit": "5", "timezone": "Mars", "warmup": 1, "rate_per_second": 1},
        "experiment": {"variants": [{"name": "A"}]},
        "scheduledAt": "tomorrow",
        "filter": [],
        "from": "nobody",
        "sender": "us@example.com",
    }
    answer = await api.client.post(PATH, json=wrong)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert {error["field"] for error in answer.json()["errors"]} == {
        "name",
        "content.colour",
        "lists[0]",
        "limits.ratePerHour",
        "limits.dailyLimit",
        "limits.timezone",
        "limits.warmup",
        "limits.rate_per_second",
        "experiment.variants",
        "scheduledAt",
        "filter",
        "from",
        "sender",
    }
    both = await api.client.post(PATH, json=a_campaign(content={"body": "x", "subject": "x", "templateId": "y"}))
    assert both.json()["errors"] == [
        {"field": "content", "code": "INVALID", "message": "give either a body or a templateId"}
    ]
    nul = await api.client.post(PATH, json=a_campaign(content={"body": "a\x00b", "subject": "x"}))
    assert nul.json()["errors"][0]["field"] == "content.body"
    assert (await api.client.get(PATH)).json()["campaigns"] == []


async def test_errors_name_the_field_and_the_fix(api: Api) -> None:
    await readers(api, 2)
    hours = await api.client.post(PATH, json=a_campaign(limits={"workingHours": "9 to 5"}))
    [error] = hours.json()["errors"]
    assert (error["field"], error["code"]) == ("limits.workingHours", "INVALID")
    assert error["message"].startswith("working hours are invalid: use opening and closing times such as 09:00-18:00")
    campaign_id = await created(api)
    for unknown, field in (
        (a_campaign(content={"templateId": "nope"}), "content.templateId"),
        (a_campaign(lists=[NEWS, "nope"]), "lists"),
        (a_campaign(segment="nope"), "segment"),
    ):
        for answer in (
            await api.client.post(PATH, json=unknown),
            await api.client.put(f"{PATH}/{campaign_id}", json=unknown),
        ):
            [error] = answer.json()["errors"]
            assert (answer.status_code, error["field"]) == (422, field)
            assert error["message"].endswith("nope. Create it first, or check the name.")
    await join(api.engine.database, ["zoe@example.com"], attributes={"plan": None})
    body = {"subject": "Hello {{ name", "body": "<p>{{ plan }}</p>"}
    broken = await created(api, content=body)
    checked = (await api.client.post(f"{PATH}/{broken}/preflight")).json()["problems"]
    assert [(each["field"], each["message"]) for each in checked] == [
        ("content.subject", "The subject is invalid: a block is not closed.")
    ]
    lacking = await created(api, content={**body, "subject": "Hello"})
    [problem] = (await api.client.post(f"{PATH}/{lacking}/preflight")).json()["problems"]
    assert "1 of 3 recipients has no such attribute, for example zoe@example.com;" in problem["message"]


async def test_start_and_preflight_list_every_problem(api: Api) -> None:
    content = {"subject": "Hello {{ nickname }}", "body": '<a href="/home">Home</a>'}
    definition = a_definition(content=content, lists=["other"], segment="nobody")
    draft = await api.engine.campaigns.create(OPERATOR, DEFAULT_TENANT, definition)  # Neither exists any more.
    campaign_id = draft.campaign_id
    told = await acted(api, campaign_id, "preflight")
    codes = {each["code"] for each in told["problems"]}
    assert codes >= {"UNKNOWN_LIST", "UNKNOWN_SEGMENT", "RELATIVE_LINK"}
    assert (told["mayStart"], told["planned"]) == (False, 0)
    refused = await acted(api, campaign_id, "start", status=422)
    assert refused["code"] == "CAMPAIGN_REFUSED"
    assert refused["errors"] == told["problems"]
    assert (await shown(api, campaign_id))["status"] == "DRAFT"

    await readers(api, 4)
    fine = await acted(api, await created(api), "preflight")
    assert (fine["mayStart"], fine["planned"], fine["problems"]) == (True, 4, [])
    assert (await acted(api, await created(api, lists=[]), "preflight"))["planned"] == 0


@pytest.mark.promise("campaign-as-reviewed")
async def test_start_with_digests_of_the_check_refuses_changes(api: Api) -> None:
    await readers(api, 2)
    later = isoformat(api.engine.clock.now() + HOUR)
    campaign_id = await created(api, scheduledAt=later)
    before = (await acted(api, campaign_id, "preflight"))["reviewed"]
    changed = a_campaign(scheduledAt=later, content={"subject": "Other", "body": "<p>Hello</p>"})
    assert (await api.client.put(f"{PATH}/{campaign_id}", json=changed)).status_code == 200
    for reviewed, parts in ((before, "content"), ("other", "content, audience, sender, send time, limits")):
        refused = await acted(api, campaign_id, f"start?reviewed={reviewed}", status=409)
        assert refused["code"] == "CHANGED_SINCE_REVIEW"
        assert f"changed since you reviewed it: {parts}. Check it" in refused["detail"]
    after = (await acted(api, campaign_id, "preflight"))["reviewed"]
    assert (await shown(api, campaign_id))["reviewed"] is None
    started = await acted(api, campaign_id, f"start?reviewed={after}&sendNow=true")
    assert started["scheduledAt"] is None
    await acted(api, campaign_id, "pause")
    assert (await acted(api, campaign_id, "resume?reviewed=other", status=409))["code"] == "CHANGED_SINCE_REVIEW"
    assert (await acted(api, campaign_id, f"resume?reviewed={started['reviewed']}"))["status"] == "SENDING"


async def test_foreign_campaign_is_404_and_wrong_state_is_409(api: Api) -> None:
    await readers(api, 1)
    campaign_id = await created(api)
    empty = ("start", "pause", "resume", "cancel", "retry-failed", "accept-failures", "preflight")
    given = {
        "in-doubt/resolve": {"as": "close"},
        "duplicate": {},
        "extend": {},
        "winner": {"version": "A"},
        "test": {"addresses": ["us@example.com"]},
    }
    for action, body in {**dict.fromkeys(empty), **given}.items():
        for path in (f"{PATH}/{campaign_id}/{action}", f"{PATH}/none/{action}"):
            answer = await api.stranger.post(path, json=body)
            assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND"), path
    for path in ("", "/failures", "/in-doubt", "/report.csv"):
        assert (await api.stranger.get(f"{PATH}/{campaign_id}{path}")).status_code == 404
    for path, body in (("", a_campaign()), ("/limits", {})):
        assert (await api.stranger.put(f"{PATH}/{campaign_id}{path}", json=body)).status_code == 404
    for action in ("pause", "resume", "retry-failed", "accept-failures"):
        await acted(api, campaign_id, action, status=409)
    await acted(api, campaign_id, "extend", {}, 409)
    await acted(api, campaign_id, "winner", {"version": "A"}, 409)
    assert (await shown(api, campaign_id))["status"] == "DRAFT"
    assert (await api.stranger.get("/v1/audit-log")).json() == {"entries": [], "nextCursor": None}


# While the campaign is being sent.


async def test_failures_are_listed_retried_and_accepted(api: Api, bench: Bench) -> None:
    await readers(api, 5)
    campaign_id = await created(api)
    await acted(api, campaign_id, "start")
    await bench.drain(ScriptedProvider(REFUSAL, REFUSAL, REFUSAL))
    stuck = await shown(api, campaign_id)
    assert (stuck["status"], stuck["queueStatus"], stuck["failedCount"]) == ("SENDING", "COMPLETED", 3)
    first = (await api.client.get(f"{PATH}/{campaign_id}/failures", params={"limit": 2})).json()
    rest = (
        await api.client.get(f"{PATH}/{campaign_id}/failures", params={"limit": 2, "cursor": first["nextCursor"]})
    ).json()
    found = [*first["failures"], *rest["failures"]]
    assert [each["email"] for each in found] == [address_of(number) for number in range(3)]
    assert {(each["errorCode"], each["attempts"], each["failedAt"]) for each in found} == {(REFUSAL.code, 1, NOW)}
    assert rest["nextCursor"] is None

    assert (await acted(api, campaign_id, "retry-failed"))["retried"] == 3
    await bench.drain(ScriptedProvider(REFUSAL))
    assert (await shown(api, campaign_id))["failedCount"] == 1
    assert (await acted(api, campaign_id, "accept-failures"))["status"] == "SENT"
    actions = [entry["action"] for entry in (await api.client.get("/v1/audit-log")).json()["entries"]]
    assert actions[:2] == ["campaign.accept_failures", "campaign.retry_failed"]


@pytest.mark.both_engines
async def test_messages_in_doubt_are_listed_and_resolved_together(api: Api, bench: Bench) -> None:
    await readers(api, 6)
    campaign_id = await created(api)
    await acted(api, campaign_id, "start")
    await bench.drain(ScriptedProvider(UNKNOWN, UNKNOWN, UNKNOWN))
    path = f"{PATH}/{campaign_id}/in-doubt"
    first = (await api.client.get(path, params={"limit": 2})).json()
    rest = (await api.client.get(path, params={"limit": 2, "cursor": first["nextCursor"]})).json()
    found = [*first["messages"], *rest["messages"]]
    assert [each["email"] for each in found] == [address_of(number) for number in range(3)]
    assert {(each["errorCode"], each["inDoubtSince"]) for each in found} == {(UNKNOWN.code, NOW)}
    assert rest["nextCursor"] is None

    await acted(api, campaign_id, "in-doubt/resolve", {"as": "perhaps"}, 422)
    resolved = await acted(api, campaign_id, "in-doubt/resolve", {"as": "resend"})
    assert (resolved["resolved"], resolved["status"]) == (3, "SENDING")
    provider = ScriptedProvider(UNKNOWN)
    await bench.drain(provider)
    assert len(provider.messages) == 3
    assert (await acted(api, campaign_id, "in-doubt/resolve", {"as": "sent"}))["resolved"] == 1
    await bench.drain(provider)
    assert (await shown(api, campaign_id))["status"] == "SENT"
    assert (await acted(api, campaign_id, "in-doubt/resolve", {"as": "close"}))["resolved"] == 0
    entries = (await api.client.get("/v1/audit-log")).json()["entries"]
    assert entries[1]["action"] == "campaign.resolve_in_doubt"
    assert (entries[1]["detail"]["as"], entries[1]["detail"]["messages"]) == ("sent", 1)


async def test_campaign_is_paused_resumed_and_cancelled(api: Api, bench: Bench) -> None:
    await readers(api, 3)
    campaign_id = await created(api)
    await acted(api, campaign_id, "start")
    paused = await acted(api, campaign_id, "pause")
    assert (paused["status"], paused["deferReason"], paused["deferredUntil"]) == ("PAUSED", "paused", None)
    assert (await acted(api, campaign_id, "resume"))["status"] == "SENDING"
    await acted(api, campaign_id, "pause")
    assert (await acted(api, campaign_id, "cancel"))["status"] == "CANCELLED"
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert (len(provider.messages), (await shown(api, campaign_id))["queueStatus"]) == (0, "COMPLETED")


async def test_limits_defer_a_campaign_and_can_be_changed(api: Api, bench: Bench, clock: ManualClock) -> None:
    await readers(api, 5)
    campaign_id = await created(api, limits={"ratePerHour": 2})
    await acted(api, campaign_id, "start")
    await bench.drain(ScriptedProvider())
    held = await shown(api, campaign_id)
    assert (held["queueStatus"], held["deferReason"]) == ("PENDING", "rate_per_hour")
    assert (held["deferredUntil"], held["counts"]["sent"]) == ("2027-01-15T09:00:00.000Z", 2)
    raised = await api.client.put(f"{PATH}/{campaign_id}/limits", json={"ratePerHour": 4})
    assert (raised.status_code, raised.json()["definition"]["limits"]["ratePerHour"]) == (200, 4)
    clock.advance(1_000)
    await bench.drain(ScriptedProvider())
    assert (await shown(api, campaign_id))["counts"]["sent"] == 4
    wrong = await api.client.put(f"{PATH}/{campaign_id}/limits", json={"ratePerHour": 4.5, "perWeek": 1})
    assert {error["field"] for error in wrong.json()["errors"]} == {"ratePerHour", "perWeek"}


async def test_test_send_is_not_counted(api: Api, bench: Bench) -> None:
    await readers(api, 1)
    campaign_id = await created(api)
    body = {"addresses": ["us@example.com"], "asContact": address_of(0)}
    [message] = (await acted(api, campaign_id, "test", body, 202))["mails"]
    provider = ScriptedProvider()
    await bench.drain(provider)
    story = (await api.client.get(f"/v1/email/{message['outboxId']}")).json()
    assert (story["to"], story["subject"], story["status"]) == ("us@example.com", "[Test] News for Ann", "SENT")
    assert (await shown(api, campaign_id))["status"] == "DRAFT"
    unknown = await acted(api, campaign_id, "test", {**body, "asContact": "nobody@example.com"}, 422)
    assert unknown["errors"][0]["field"] == "asContact"
    wrong = await acted(api, campaign_id, "test", {"addresses": ["nobody"]}, 422)
    assert wrong["errors"][0]["field"] == "addresses[0]"


async def test_campaign_extends_to_new_subscribers_and_winner_is_chosen(api: Api, bench: Bench) -> None:
    await readers(api, 10, consents_to_tracking=True)
    experiment = {"variants": [{"name": "A"}, {"name": "B", "subject": "Other"}], "testPercent": 20}
    campaign_id = await created(api, experiment=experiment)
    await acted(api, campaign_id, "start")
    await bench.drain(ScriptedProvider())
    assert (await shown(api, campaign_id))["deferReason"] == "waits_for_winner"
    unknown = await acted(api, campaign_id, "winner", {"version": "C"}, 422)
    assert unknown["errors"][0]["field"] == "version"
    await acted(api, campaign_id, "winner?reviewed=other", {"version": "B"}, 409)
    reviewed = (await shown(api, campaign_id))["reviewed"]
    await acted(api, campaign_id, f"winner?reviewed={reviewed}", {"version": "B"})
    await bench.drain(ScriptedProvider())
    assert (await shown(api, campaign_id))["status"] == "SENT"
    await acted(api, campaign_id, "extend", {}, 409)
    await join(api.engine.database, ["late@example.com"])
    planned = (await api.client.get(f"{PATH}/{campaign_id}/extend")).json()
    assert planned["newcomers"] == 1
    await acted(api, campaign_id, "extend?reviewed=other", {}, 409)
    extended = await acted(api, campaign_id, f"extend?reviewed={planned['reviewed']}", {})
    assert (extended["newcomers"], extended["status"]) == (1, "SENDING")


# Progress.


@pytest.mark.promise("explain-campaign")
@pytest.mark.both_engines
async def test_poll_shows_active_campaign_and_queue(api: Api, bench: Bench, clock: ManualClock) -> None:
    assert (await api.anonymous.get("/mail/progress/poll/")).status_code == 401
    nothing = {
        "active_campaign": None,
        "queued_count": 0,
        "next_campaign_at": None,
        "next_campaign_reason": None,
        "reason_code": None,
        "next_run_at": None,
        "limits": [],
    }
    assert (await api.client.get("/mail/progress/poll/")).json() == nothing
    await readers(api, 4)
    held = await created(api, name="Held", limits={"ratePerHour": 1})
    await acted(api, held, "start")
    later = await created(api, name="Later", scheduledAt=isoformat(clock.now() + DAY))
    await acted(api, later, "start")
    await bench.drain(ScriptedProvider())
    told = (await api.client.get("/mail/progress/poll/")).json()
    active = told.pop("active_campaign")
    assert told == {
        "queued_count": 1,
        "next_campaign_at": isoformat(clock.now() + DAY),
        "next_campaign_reason": "scheduled",
        "reason_code": "rate_per_hour",
        "next_run_at": isoformat(clock.now() + HOUR),
        "limits": [],
    }
    assert (active["id"], active["name"], active["percent"], active["eta"]) == (held, "Held", 25.0, None)
    assert active["counts"] == {
        "audience": 4,
        "planned": 4,
        "recipients": 4,
        "not_enqueued": 0,
        "excluded": 0,
        "waiting": 3,
        "sending": 0,
        "sent": 1,
        "bounced": 0,
        "failed": 0,
        "suppressed": 0,
        "in_doubt": 0,
        "closed_unknown": 0,
        "cancelled": 0,
    }
    assert (await api.stranger.get("/mail/progress/poll/")).json() == nothing


async def always() -> bool:
    return True


async def test_listeners_share_one_query_and_get_every_change(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = counted(monkeypatch)
    told = LiveUpdates(api.engine.database, api.engine.clock, LiveTiming(poll_seconds=0.05, prompt_seconds=600))
    await readers(api, 1)
    campaign_id = await created(api)
    streams = [told.campaign_progress(DEFAULT_TENANT, api.engine.defaults, always) for _ in range(20)]
    assert [await anext(stream) for stream in streams] == [GREETING] * 20
    heard = await asyncio.gather(*(anext(stream) for stream in streams))
    assert set(heard) == {heard[0]}
    assert read(heard[0])["active_campaign"] is None
    seconds = asyncio.get_running_loop().time()
    await acted(api, campaign_id, "start")
    after = await asyncio.gather(*(anext(stream) for stream in streams))
    seconds = asyncio.get_running_loop().time() - seconds
    assert {read(each)["active_campaign"]["id"] for each in after} == {campaign_id}
    assert len(looks) <= 3 + seconds / 0.05
    told.close()
    assert [await anext(stream, None) for stream in streams] == [None] * 20


async def test_new_listener_gets_only_fresh_snapshots(api: Api) -> None:
    told = LiveUpdates(api.engine.database, api.engine.clock, LiveTiming(poll_seconds=60, prompt_seconds=600))
    await readers(api, 1)
    campaign_id = await created(api)
    async with aclosing(told.campaign_progress(DEFAULT_TENANT, api.engine.defaults, always)) as before:  # type: ignore[type-var]
        assert await anext(before) == GREETING
        assert read(await anext(before))["active_campaign"] is None
        await acted(api, campaign_id, "start")
        async with aclosing(told.campaign_progress(DEFAULT_TENANT, api.engine.defaults, always)) as after:  # type: ignore[type-var]
            assert await anext(after) == GREETING
            assert read(await anext(after))["active_campaign"]["id"] == campaign_id


async def test_idle_stream_sends_heartbeats(api: Api) -> None:
    told = LiveUpdates(
        api.engine.database, api.engine.clock, LiveTiming(0.01, heartbeat_seconds=0.02, prompt_seconds=600)
    )
    async with aclosing(told.campaign_progress(DEFAULT_TENANT, api.engine.defaults, always)) as stream:  # type: ignore[type-var]
        assert [await anext(stream) for _ in range(4)][2:] == [HEARTBEAT, HEARTBEAT]


@pytest.mark.parametrize("part", ["query", "permission"])
async def test_stream_says_that_the_database_does_not_respond(
    api: Api, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """It says so once, survives, and sends the same snapshot again when the database responds."""
    if part == "query":
        counted(monkeypatch, fails={1, 2})
    checks = numbers()

    async def is_welcome() -> bool:
        if part == "permission" and next(checks) in (1, 2):
            raise NotDurable
        return True

    told = LiveUpdates(
        api.engine.database, api.engine.clock, LiveTiming(0.01, heartbeat_seconds=60, prompt_seconds=600)
    )
    async with aclosing(told.campaign_progress(DEFAULT_TENANT, api.engine.defaults, is_welcome)) as stream:  # type: ignore[type-var]
        _, before, unavailable, after = [await anext(stream) for _ in range(4)]
    assert unavailable == UNAVAILABLE
    assert read(after) == read(before)


async def test_stream_does_not_wait_for_a_stalled_database(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    responds = asyncio.Event()
    really: Callable[..., Awaitable[Any]] = live.queue_progress

    async def stall(*arguments: Any, **options: Any) -> Any:
        await responds.wait()
        return await really(*arguments, **options)

    monkeypatch.setattr(live, "queue_progress", stall)
    told = LiveUpdates(api.engine.database, api.engine.clock, LiveTiming(prompt_seconds=0.01))
    async with aclosing(told.campaign_progress(DEFAULT_TENANT, api.engine.defaults, always)) as stream:  # type: ignore[type-var]
        assert [await anext(stream) for _ in range(2)] == [GREETING, UNAVAILABLE]
        responds.set()
        assert read(await anext(stream))["active_campaign"] is None


async def test_revoked_key_ends_the_stream(api: Api) -> None:
    told = LiveUpdates(api.engine.database, api.engine.clock, LiveTiming(poll_seconds=0.01, prompt_seconds=600))
    welcome = [True, True, False]

    async def is_welcome() -> bool:
        return welcome.pop(0)

    heard = [each async for each in told.campaign_progress(DEFAULT_TENANT, api.engine.defaults, is_welcome)]
    assert (heard[0], len(heard)) == (GREETING, 2)


def counted(monkeypatch: pytest.MonkeyPatch, fails: Collection[int] = ()) -> list[int]:
    """Record every query. Those with the given numbers fail."""
    looks: list[int] = []
    really: Callable[..., Awaitable[Any]] = live.queue_progress

    async def poll(*arguments: Any, **options: Any) -> Any:
        looks.append(len(looks))
        if looks[-1] in fails:
            raise NotDurable
        return await really(*arguments, **options)

    monkeypatch.setattr(live, "queue_progress", poll)
    return looks


def read(event: bytes) -> Any:
    number, kind, data = event.decode().strip().split("\n")
    assert (number.partition(":")[0], kind) == ("id", "event: progress")
    return json.loads(data.removeprefix("data: "))


async def test_malformed_id_is_not_found(api: Api) -> None:
    for campaign_id in ("none", uuid7(0), "%00"):
        assert (await api.client.get(f"{PATH}/{campaign_id}")).status_code == 404


# Attachments.


async def test_draft_attachments_are_added_listed_and_removed(api: Api) -> None:
    await readers(api, 1)
    campaign_id = await created(api)
    offer = {"filename": "offer.pdf", "contentType": "application/pdf", "content": "JVBERi0="}
    added = await acted(api, campaign_id, "attachments", offer, status=201)
    [attached] = added["attachments"]
    assert (attached["filename"], attached["sizeBytes"], attached["contentId"]) == ("offer.pdf", 5, None)
    path = f"{PATH}/{campaign_id}/attachments"
    assert (await api.client.get(path)).json() == added
    assert (await shown(api, campaign_id))["attachments"] == added["attachments"]
    copy = (await acted(api, campaign_id, "duplicate", {}, status=201))["attachments"]
    assert [each["filename"] for each in copy] == ["offer.pdf"]

    missing = await api.client.delete(f"{path}/{uuid7(0)}")
    assert (missing.status_code, missing.json()["detail"]) == (404, "The campaign has no such attachment.")
    removed = await api.client.delete(f"{path}/{attached['attachmentId']}")
    assert (removed.status_code, removed.json()) == (200, {"attachments": []})

    await acted(api, campaign_id, "start")
    refused = await api.client.post(path, json=offer)
    assert (refused.status_code, refused.json()["code"]) == (409, "NOT_POSSIBLE_NOW")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"filename": "a\r\nBcc: x@example.com"}, "filename"),
        ({"filename": ""}, "filename"),
        ({"contentType": "application/pdf\r\nX: y"}, "contentType"),
        ({"contentId": "<a>"}, "contentId"),
        ({"content": "not base64"}, "content"),
        ({"content": ""}, "attachments"),
        ({"size": 3}, "size"),
    ],
)
async def test_attachments_are_validated_like_those_of_messages(api: Api, changes: dict[str, Any], field: str) -> None:
    campaign_id = await created(api)
    answer = await api.client.post(
        f"{PATH}/{campaign_id}/attachments", json={"filename": "offer.pdf", "content": "JVBERi0=", **changes}
    )
    assert answer.status_code == 422, answer.text
    assert [each["field"] for each in answer.json()["errors"]] == [field]
