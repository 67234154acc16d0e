"""Inbound webhooks over HTTP: signed events are recorded, and others change nothing."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from sqlalchemy import func, select
from structlog.testing import capture_logs

from mailwright.domain.clock import MINUTE, SECOND, ManualClock
from mailwright.domain.states import EventType, OnDoubt
from mailwright.events.inbound_webhooks import InboundWebhooks
from mailwright.events.reports import Reports, SoftBounces, forget
from mailwright.ops.metrics import REGISTRY
from mailwright.outbox.in_doubt import InDoubtHandler
from mailwright.providers.brevo import events as brevo_events
from mailwright.providers.http import Disconnect, HttpClient, HttpResponse
from mailwright.providers.inbound.parsed_events import ProviderWebhook
from mailwright.providers.inbound.webhook_secrets import MAX_CLOCK_SKEW
from mailwright.providers.mailgun.events import MailgunWebhook
from mailwright.providers.mailgun.signature import MAX_AGE as MAILGUN_MAX_AGE
from mailwright.providers.mailjet import events as mailjet_events
from mailwright.providers.postmark import events as postmark_events
from mailwright.providers.resend.events import ResendWebhook
from mailwright.providers.sendgrid.events import SendGridWebhook
from mailwright.providers.sendgrid.signature import SendGridSignature
from mailwright.providers.ses.events import SesWebhook
from mailwright.providers.ses.fetch import AmazonFetcher
from mailwright.providers.ses.sns import AmazonCertificates, FolderCertificates, SnsVerifier
from mailwright.providers.sparkpost import events as sparkpost_events
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts, events, reports, suppressions
from mailwright.web.app import create_app
from tests.api import Api, an_api, an_engine, client_of, socket_client
from tests.builders import (
    LOCK_TTL,
    SENT,
    a_message,
    a_result,
    a_settler,
    an_acceptor,
    claims_of,
    record_of,
    status_of,
    steps,
    the_event,
)
from tests.standins.http import Answer, HttpStandIn
from tests.standins.sendgrid import SendGridStandIn
from tests.standins.sns import FOREIGN_TOPIC, HEADERS, TOPIC, Signer, forgeries, malformed, ses_event
from tests.standins.vendors import (
    KEY,
    SHARED_SECRET,
    SVIX_SECRET,
    basic_request,
    bearer_request,
    mailgun_request,
    resend_request,
    webhook_of,
)

SIGNER = Signer(ManualClock().now())
SENDGRID = SendGridStandIn()
ADA = "ada@example.com"


@pytest.fixture
async def api(database: Database, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Api]:
    async with an_api(database, clock, inbound_webhooks=webhooks_of(database, clock, tmp_path)) as api:
        yield api


def another_process(api: Api, folder: Path) -> httpx.AsyncClient:
    """Return a client of another process with the same database, which shares no memory with the first."""
    database, clock = api.engine.database, api.engine.clock
    assert isinstance(clock, ManualClock)
    return client_of(create_app(an_engine(database, clock, inbound_webhooks=webhooks_of(database, clock, folder))))


def webhooks_of(database: Database, clock: ManualClock, folder: Path) -> InboundWebhooks:
    fetch = AmazonFetcher()
    sns = SnsVerifier(clock, FolderCertificates(SIGNER.keep(folder / "certificates")), fetch, [TOPIC])
    webhooks: dict[str, ProviderWebhook] = {
        "ses": SesWebhook(sns, fetch, clock),
        "sendgrid": SendGridWebhook(SendGridSignature(SENDGRID.public_key, clock), clock),
        "mailgun": MailgunWebhook(KEY, clock),
        "resend": ResendWebhook(SVIX_SECRET, clock),
        "postmark": webhook_of(postmark_events, SHARED_SECRET, clock),
        "brevo": webhook_of(brevo_events, SHARED_SECRET, clock),
        "mailjet": webhook_of(mailjet_events, SHARED_SECRET, clock),
        "sparkpost": webhook_of(sparkpost_events, SHARED_SECRET, clock),
    }
    return InboundWebhooks(Reports(database, clock), webhooks)


async def from_ses(api: Api, event: Any, **changes: Any) -> httpx.Response:
    return await api.anonymous.post("/ses-events", content=SIGNER.notification(event, **changes), headers=HEADERS)


async def receive_sendgrid(api: Api, *sent: Mapping[str, Any]) -> httpx.Response:
    headers, body = SENDGRID.signed_events(sent, timestamp=api.engine.clock.now() // 1000)
    return await api.anonymous.post("/sendgrid-events", content=body, headers=headers)


async def a_sent_mail(
    api: Api, clock: ManualClock, provider: str, email: str = ADA, message_id: str = "0100-1", **fields: Any
) -> str:
    message = a_message(to=email, **fields)
    await an_acceptor(api.engine.database, clock).accept([message])
    [claimed] = await claims_of(api.engine.database, clock).claim(1)
    settling = a_settler(api.engine.database, clock)
    await settling.exchange([], [claimed])
    result = replace(SENT, provider=provider, provider_message_id=message_id)
    await settling.exchange([a_result(claimed, result, clock.now())], [])
    return message.outbox_id


async def a_doubt(api: Api, clock: ManualClock) -> str:
    message = a_message(to=ADA, on_doubt=OnDoubt.HOLD)
    await an_acceptor(api.engine.database, clock).accept([message])
    claimed = await claims_of(api.engine.database, clock).claim(1)
    await a_settler(api.engine.database, clock).exchange([], claimed)
    clock.advance(LOCK_TTL)
    await InDoubtHandler(api.engine.database, clock, grace=10 * MINUTE).mark_lost_attempts()
    return message.outbox_id


async def contact_state(api: Api, email: str = ADA) -> tuple[str | None, list[tuple[str, str]]]:
    """Return the contact's status and its suppressions with their reasons."""
    async with api.engine.database.read() as tx:
        people = await tx.execute(select(contacts.c.status).where(contacts.c.email == email))
        chosen = select(suppressions.c.list_key, suppressions.c.reason).where(suppressions.c.email == email)
        rows = await tx.execute(chosen.order_by(suppressions.c.list_key))
    return people[0].status if people else None, [(row.list_key, row.reason) for row in rows]


async def traces(database: Database) -> int:
    async with database.read() as tx:
        counts = [
            (await tx.execute(select(func.count()).select_from(table)))[0][0]
            for table in (reports, suppressions, contacts, events)
        ]
    return sum(counts)


def counted(answer: httpx.Response) -> tuple[int, int, int, int]:
    counts = answer.json()
    return answer.status_code, counts["new"], counts["repeated"], counts["unknown"]


# SES.


async def test_permanent_bounce_suppresses_the_address(api: Api, clock: ManualClock) -> None:
    outbox_id = await a_sent_mail(api, clock, "ses")
    answer = await from_ses(api, ses_event("Bounce", ADA, outbox_id=outbox_id))
    assert counted(answer) == (200, 1, 0, 0)
    assert await contact_state(api) == ("bounced", [("*", "bounce")])
    bounced = the_event(await record_of(api.engine.database, outbox_id), EventType.BOUNCED)
    assert bounced.metadata["bounceType"] == "Permanent"
    assert bounced.metadata["bounceSubtype"] == "General"
    assert bounced.metadata["recipient"] == "a***@e***.com"


async def test_complaint_suppresses_the_address(api: Api, clock: ManualClock) -> None:
    await a_sent_mail(api, clock, "ses", message_id="0100-7")
    assert counted(await from_ses(api, ses_event("Complaint", ADA, message_id="0100-7"))) == (200, 1, 0, 0)
    assert await contact_state(api) == ("unsubscribed", [("*", "complaint")])


async def test_delivery_event_changes_no_contact(api: Api, clock: ManualClock) -> None:
    outbox_id = await a_sent_mail(api, clock, "ses")
    event = ses_event("Delivery", ADA, at=SIGNER.now, outbox_id=outbox_id)
    assert counted(await from_ses(api, event)) == (200, 1, 0, 0)
    assert steps(await record_of(api.engine.database, outbox_id))[-1] == "delivered"
    assert (await contact_state(api))[1] == []


async def test_transient_bounce_counts_only_when_repeated(api: Api, clock: ManualClock) -> None:
    for number in range(3):
        assert (await contact_state(api))[1] == []
        event = ses_event("Bounce", ADA, at=SIGNER.now, message_id=f"0100-{number}", bounceType="Transient")
        await a_sent_mail(api, clock, "ses", message_id=f"0100-{number}")
        event["bounce"]["bouncedRecipients"][0].update(status="4.2.2")
        assert counted(await from_ses(api, event)) == (200, 1, 0, 0)
    status, [(scope, _reason)] = await contact_state(api)
    assert (status, scope) == ("bounced", "*")


@pytest.mark.promise("doubt-report-settles")
async def test_send_event_resolves_message_in_doubt(api: Api, clock: ManualClock) -> None:
    outbox_id = await a_doubt(api, clock)
    assert await status_of(api.engine.database, outbox_id) == "IN_DOUBT"
    assert counted(await from_ses(api, ses_event("Send", ADA, outbox_id=outbox_id))) == (200, 1, 0, 0)
    assert await status_of(api.engine.database, outbox_id) == "SENT"


async def test_replayed_event_has_no_effect(api: Api, clock: ManualClock) -> None:
    outbox_id = await a_sent_mail(api, clock, "ses")
    body = SIGNER.notification(ses_event("Bounce", ADA, outbox_id=outbox_id))
    answers = [await api.anonymous.post("/ses-events", content=body, headers=HEADERS) for _ in range(3)]
    assert [counted(answer) for answer in answers] == [(200, 1, 0, 0), (200, 0, 1, 0), (200, 0, 1, 0)]
    told_anew = ses_event("Bounce", ADA, outbox_id=outbox_id)
    told_anew["notificationType"] = told_anew.pop("eventType")
    assert counted(await from_ses(api, told_anew, version="1", subject="Again")) == (200, 0, 1, 0)
    assert steps(await record_of(api.engine.database, outbox_id)).count("bounce") == 1


@pytest.mark.parametrize(
    ("message", "logged"),
    [
        ({"eventType": "Surprise", "mail": {}}, ("error", "unknown_event_type")),
        ({"notificationType": "Received"}, ("error", "unknown_event_type")),
        (
            "Successfully validated SNS topic for Amazon SES event publishing.",
            ("info", "event_is_plain_text"),
        ),
    ],
    ids=str,
)
async def test_unknown_event_is_logged_and_accepted(api: Api, message: Any, logged: tuple[str, str]) -> None:
    before = await traces(api.engine.database)
    with capture_logs() as lines:
        assert counted(await from_ses(api, message)) == (200, 0, 0, 0)
    assert [(line["log_level"], line["event"]) for line in lines] == [logged]
    assert await traces(api.engine.database) == before


# Rejected events.


async def test_forged_event_is_logged_and_not_recorded(api: Api) -> None:
    event = ses_event("Bounce", ADA)
    forged = forgeries(SIGNER, event) | {"foreign": SIGNER.notification(event, TopicArn=FOREIGN_TOPIC)}
    foreign = Signer(ManualClock().now(), key="stranger")
    cases = {
        **dict.fromkeys(forged.values(), 403),
        **dict.fromkeys(malformed(SIGNER, event).values(), 400),
        foreign.notification(event): 403,
        SIGNER.notification('{"eventType": "Bounce"}'): 400,
        SIGNER.subscription(TopicArn=FOREIGN_TOPIC): 403,
        SIGNER.notification(event, Timestamp=SIGNER.stamp(timedelta(days=-2))): 403,
    }
    before = await traces(api.engine.database)
    for body, status in cases.items():
        with capture_logs() as lines:
            answer = await api.anonymous.post("/ses-events", content=body, headers=HEADERS)
        problem = answer.json()
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
        assert problem["code"] in ("EVENT_MALFORMED", "EVENT_FORGED", "EVENT_STALE", "EVENT_FOREIGN")
        assert [(line["event"], line["code"]) for line in lines] == [("event_rejected", problem["code"])]
        assert ADA not in str(lines) + answer.text
    assert await traces(api.engine.database) == before


@pytest.mark.parametrize("headers", [{"x-amz-sns-rawdelivery": "true"}, {"X-Amz-Sns-RawDelivery": "True "}, {}])
async def test_event_without_envelope_is_rejected(api: Api, headers: dict[str, str]) -> None:
    answer = await api.anonymous.post("/ses-events", json=ses_event("Bounce", ADA), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "EVENT_MALFORMED")
    assert "raw message delivery" in answer.json()["detail"]


@pytest.mark.parametrize("route", ["/ses-events", "/sendgrid-events"])
async def test_too_large_body_is_not_read(api: Api, route: str) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(1_000):
            yield b" " * 65_536

    for answer in (
        await api.anonymous.post(route, content=b"", headers={"Content-Length": "99999999"}),
        await api.anonymous.post(route, content=endless()),
    ):
        assert (answer.status_code, answer.json()["code"]) == (413, "BODY_TOO_LARGE")


async def test_unavailable_database_makes_provider_retry(
    database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    away = Database(f"sqlite:///{tmp_path}/gone/mailwright.db")
    async with an_api(database, clock, inbound_webhooks=webhooks_of(away, clock, tmp_path)) as api:
        for answer in (
            await from_ses(api, ses_event("Bounce", ADA)),
            await receive_sendgrid(api, {"event": "bounce", "type": "bounce", "email": ADA, "sg_event_id": "e"}),
        ):
            assert (answer.status_code, answer.json()["code"]) == (503, "NOT_DURABLE")
            assert answer.headers["retry-after"]
    await away.close()


async def test_only_post_is_accepted(api: Api) -> None:
    for route in ("/ses-events", "/sendgrid-events"):
        assert (await api.anonymous.get(route)).status_code == 405


async def test_foreign_topic_changes_no_contact_by_address(
    database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    """Any AWS customer can send signed messages. Without configured topics, an event must name our message."""
    fetch = AmazonFetcher()
    sns = SnsVerifier(clock, FolderCertificates(SIGNER.keep(tmp_path / "certificates")), fetch)
    webhooks = InboundWebhooks(Reports(database, clock), {"ses": SesWebhook(sns, fetch, clock)})
    async with an_api(database, clock, inbound_webhooks=webhooks) as api:
        outbox_id = await a_sent_mail(api, clock, "ses")
        clock.advance(1_000)
        for name in ("Bounce", "Complaint"):
            event = ses_event(name, ADA, at=SIGNER.now, message_id="of a stranger")
            with capture_logs() as lines:
                assert counted(await from_ses(api, event, TopicArn=FOREIGN_TOPIC)) == (200, 0, 0, 1)
            assert [line["event"] for line in lines if line["event"] != "sns_topics_not_set"] == [
                "report_without_message"
            ]
            assert ADA not in str(lines)
        eve = ses_event("Bounce", "eve@example.com", at=SIGNER.now, outbox_id=outbox_id)
        assert [(await contact_state(api, email))[1] for email in (ADA, "eve@example.com")] == [[], []]
        assert counted(await from_ses(api, eve, TopicArn=FOREIGN_TOPIC)) == (200, 1, 0, 0)
        assert await contact_state(api) == ("bounced", [("*", "bounce")])  # The id of its message decides.
        assert (await contact_state(api, "eve@example.com"))[1] == []


async def test_rejections_are_counted_by_reason(api: Api) -> None:
    labels = {"code": "EVENT_FOREIGN"}
    before = REGISTRY.get_sample_value("mailwright_webhooks_refused_total", labels) or 0
    answer = await from_ses(api, ses_event("Bounce", ADA), TopicArn=FOREIGN_TOPIC)
    assert answer.status_code == 403
    assert REGISTRY.get_sample_value("mailwright_webhooks_refused_total", labels) == before + 1


# Subscriptions.


class Rerouted(HttpClient):
    def __init__(self, standin: HttpStandIn) -> None:
        super().__init__()
        self._standin = standin

    async def request(self, method: str, url: str, **options: Any) -> HttpResponse | Disconnect:
        return await super().request(method, self._standin.url + url.partition("amazonaws.com")[2], **options)


class Amazon(HttpStandIn):
    def usual(self, request: Any) -> Answer:
        return Answer(200, SIGNER.certificate if request.path.endswith(".pem") else b"<ConfirmSubscriptionResponse/>")


async def test_configured_topic_is_confirmed_and_events_arrive(database: Database, clock: ManualClock) -> None:
    async with Amazon() as amazon:
        fetch = AmazonFetcher(Rerouted(amazon))
        sns = SnsVerifier(clock, AmazonCertificates(fetch, clock), fetch, [TOPIC])
        webhooks = InboundWebhooks(Reports(database, clock), {"ses": SesWebhook(sns, fetch, clock)})
        async with an_api(database, clock, inbound_webhooks=webhooks) as api:
            foreign = SIGNER.subscription(TopicArn=FOREIGN_TOPIC)
            assert (await api.anonymous.post("/ses-events", content=foreign)).status_code == 403
            assert amazon.requests == []
            with capture_logs() as lines:
                answer = await api.anonymous.post("/ses-events", content=SIGNER.subscription(), headers=HEADERS)
            assert answer.status_code == 200
            assert [line["event"] for line in lines] == ["sns_subscribed"]
            assert [request.path for request in amazon.requests] == [f"/{SIGNER.file}", "/"]
            assert counted(await from_ses(api, ses_event("Bounce", ADA)))[0] == 200
            amazon.answer(Answer(500))
            answer = await api.anonymous.post("/ses-events", content=SIGNER.subscription(), headers=HEADERS)
            assert (answer.status_code, answer.json()["code"]) == (503, "EVENT_NOT_NOW")


async def test_unsubscribed_topic_is_logged_and_not_resubscribed(api: Api) -> None:
    with capture_logs() as lines:
        answer = await api.anonymous.post("/ses-events", content=SIGNER.unsubscription(), headers=HEADERS)
    assert counted(answer) == (200, 0, 0, 0)
    assert [line["event"] for line in lines] == ["sns_unsubscribed"]


# SendGrid.


def a_sendgrid_event(name: str, number: int = 1, **fields: Any) -> dict[str, Any]:
    return {"event": name, "email": ADA, "sg_event_id": f"e-{name}-{number}", "timestamp": 1_799_999_990, **fields}


@pytest.mark.parametrize(
    ("event", "status", "scopes"),
    [
        (a_sendgrid_event("bounce", type="bounce"), "bounced", [("*", "bounce")]),
        (a_sendgrid_event("bounce", type="blocked"), "active", []),
        (a_sendgrid_event("spamreport"), "unsubscribed", [("*", "complaint")]),
        (a_sendgrid_event("dropped", reason="Bounced Address"), "bounced", [("*", "bounce")]),
        (a_sendgrid_event("delivered"), "active", []),
    ],
    ids=lambda value: str(value.get("event")) if isinstance(value, dict) else "",
)
async def test_sendgrid_event_updates_message_and_contact(
    api: Api, clock: ManualClock, event: dict[str, Any], status: str, scopes: list[tuple[str, str]]
) -> None:
    outbox_id = await a_sent_mail(api, clock, "sendgrid", message_id="abc")
    event = {**event, "sg_message_id": "abc.filter0001.0"}
    assert counted(await receive_sendgrid(api, event)) == (200, 1, 0, 0)
    assert counted(await receive_sendgrid(api, event, event)) == (200, 0, 2, 0)
    found, suppressed = await contact_state(api)
    assert (found or "active", suppressed) == (status, scopes)
    assert len(steps(await record_of(api.engine.database, outbox_id))) == 5


async def test_sendgrid_unsubscribe_suppresses_bulk_email_only(api: Api, clock: ManualClock) -> None:
    await a_sent_mail(api, clock, "sendgrid", message_id="abc")
    await receive_sendgrid(api, a_sendgrid_event("group_unsubscribe", sg_message_id="abc.1"))
    status, [(scope, _reason)] = await contact_state(api)
    assert (status, scope) == ("unsubscribed", "general")


# Each vendor: the builder of signed requests, and a complaint without and with our id.
VENDORS: dict[str, tuple[Callable[[Any, int], tuple[dict[str, str], bytes]], Callable[[str, str], dict[str, Any]]]] = {
    "mailgun": (
        mailgun_request,
        lambda outbox_id, message_id: {
            "event": "complained",
            "id": "e-1",
            "timestamp": 1_700_000_000.5,
            "recipient": ADA,
            "message": {"headers": {"message-id": message_id}},
            "user-variables": {"mailwright_message": outbox_id},
        },
    ),
    "resend": (
        resend_request,
        lambda outbox_id, message_id: {
            "type": "email.complained",
            "created_at": "2023-11-22T23:41:12.126Z",
            "data": {"email_id": message_id, "to": [ADA], "tags": {"mailwright_message": outbox_id}},
        },
    ),
    "postmark": (
        basic_request,
        lambda outbox_id, message_id: {
            "RecordType": "SpamComplaint",
            "MessageID": message_id,
            "Email": ADA,
            "BouncedAt": "2023-11-22T23:41:12Z",
            "Metadata": {"mailwright_message": outbox_id},
        },
    ),
    "brevo": (
        bearer_request,
        lambda outbox_id, message_id: {
            "event": "spam",
            "email": ADA,
            "message-id": f"<{message_id}>",
            "X-Mailin-custom": outbox_id,
            "ts_event": 1_700_000_000,
        },
    ),
    "mailjet": (
        basic_request,
        lambda outbox_id, message_id: {
            "event": "spam",
            "time": 1_700_000_000,
            "MessageID": message_id,
            "email": ADA,
            "CustomID": outbox_id,
        },
    ),
    "sparkpost": (
        lambda event, now: basic_request([{"msys": {"message_event": event}}], now),
        lambda outbox_id, message_id: {
            "type": "spam_complaint",
            "event_id": "92356927693813856",
            "timestamp": "1700000000",
            "raw_rcpt_to": ADA,
            "transmission_id": message_id,
            "rcpt_meta": {"mailwright_message": outbox_id},
        },
    ),
}


def _signed_complaint(name: str, outbox_id: str, now: int) -> tuple[dict[str, str], bytes]:
    request, complaint = VENDORS[name]
    return request(complaint(outbox_id, "id-1"), now)


@pytest.mark.promise("signed-reports")
@pytest.mark.parametrize("name", VENDORS)
async def test_vendor_event_counts_once_and_forged_ones_never(api: Api, clock: ManualClock, name: str) -> None:
    request, complaint = VENDORS[name]
    outbox_id = await a_sent_mail(api, clock, name, message_id="id-1")
    headers, body = request(complaint(outbox_id, "id-1"), clock.now())
    before = await traces(api.engine.database)
    for forged_headers, forged_body in (({}, body.replace(b"signature", b"other")), (headers, b"{"), (headers, b"7")):
        answer = await api.anonymous.post(f"/{name}-events", content=forged_body, headers=forged_headers)
        assert answer.status_code in (400, 403), answer.text
    assert await traces(api.engine.database) == before
    for expected in ((200, 1, 0, 0), (200, 0, 1, 0)):
        answer = await api.anonymous.post(f"/{name}-events", content=body, headers=headers)
        assert counted(answer) == expected
    assert await contact_state(api) == ("unsubscribed", [("*", "complaint")])
    assert the_event(await record_of(api.engine.database, outbox_id), EventType.COMPLAINED).metadata["source"] == name


# SES and SendGrid sign their requests too.
SIGNED: dict[str, Callable[[str, int], tuple[dict[str, str], bytes]]] = {
    **{name: partial(_signed_complaint, name) for name in VENDORS},
    "ses": lambda outbox_id, _now: (HEADERS, SIGNER.notification(ses_event("Complaint", ADA, outbox_id=outbox_id))),
    "sendgrid": lambda outbox_id, now: SENDGRID.signed_events(
        [a_sendgrid_event("spamreport", mailwright_message=outbox_id)], timestamp=now // 1000
    ),
}


@pytest.mark.promise("signed-reports")
@pytest.mark.parametrize("name", SIGNED)
async def test_request_replayed_at_another_process_has_no_effect(
    api: Api, clock: ManualClock, tmp_path: Path, name: str
) -> None:
    database = api.engine.database
    headers, body = SIGNED[name](await a_sent_mail(api, clock, name), clock.now())
    assert counted(await api.anonymous.post(f"/{name}-events", content=body, headers=headers)) == (200, 1, 0, 0)
    before = await traces(database)
    async with another_process(api, tmp_path) as other:
        answer = await other.post(f"/{name}-events", content=body, headers=headers)
    assert (counted(answer), await traces(database)) == ((200, 0, 1, 0), before)


@pytest.mark.promise("signed-reports")
async def test_mailgun_signature_counts_for_one_body_everywhere(api: Api, clock: ManualClock, tmp_path: Path) -> None:
    database, (request, complaint) = api.engine.database, VENDORS["mailgun"]
    outbox_id = await a_sent_mail(api, clock, "mailgun")
    _, skipped = request({"event": "unknown to us"}, clock.now())
    assert counted(await api.anonymous.post("/mailgun-events", content=skipped)) == (200, 0, 0, 0)
    _, forged = request(complaint(outbox_id, "id-1"), clock.now())  # The same time and token.
    async with another_process(api, tmp_path) as other:
        for client in (other, api.anonymous):
            answer = await client.post("/mailgun-events", content=forged)
            assert (answer.status_code, answer.json()["code"]) == (403, "EVENT_FORGED")
        assert counted(await other.post("/mailgun-events", content=skipped)) == (200, 0, 0, 0)
    assert (await contact_state(api))[1] == []
    clock.advance(MAILGUN_MAX_AGE)
    assert await forget(database, SoftBounces(), clock.now()) == 0
    clock.advance(MAX_CLOCK_SKEW + SECOND)
    assert await forget(database, SoftBounces(), clock.now()) == 1


@pytest.mark.parametrize("name", ["mailgun", "resend", "postmark", "sparkpost", "mailjet"])
async def test_vendor_event_is_matched_by_the_providers_id(api: Api, clock: ManualClock, name: str) -> None:
    request, complaint = VENDORS[name]
    await a_sent_mail(api, clock, name, message_id="id-1")
    headers, body = request(complaint("", "id-1"), clock.now())
    assert counted(await api.anonymous.post(f"/{name}-events", content=body, headers=headers)) == (200, 1, 0, 0)


@pytest.mark.promise("doubt-report-settles")
async def test_vendor_event_resolves_message_in_doubt(api: Api, clock: ManualClock) -> None:
    outbox_id = await a_doubt(api, clock)
    request, complaint = VENDORS["resend"]
    headers, body = request(complaint(outbox_id, "id-1"), clock.now())
    assert counted(await api.anonymous.post("/resend-events", content=body, headers=headers)) == (200, 1, 0, 0)
    assert await status_of(api.engine.database, outbox_id) == "SENT"


@pytest.mark.promise("doubt-report-settles")
async def test_sendgrid_event_resolves_message_in_doubt(api: Api, clock: ManualClock) -> None:
    outbox_id = await a_doubt(api, clock)
    event = a_sendgrid_event("processed", mailwright_message=outbox_id)
    assert counted(await receive_sendgrid(api, event)) == (200, 1, 0, 0)
    assert await status_of(api.engine.database, outbox_id) == "SENT"


async def test_invalid_event_is_counted_and_others_recorded(api: Api, clock: ManualClock) -> None:
    outbox_id = await a_sent_mail(api, clock, "sendgrid", message_id="abc")
    good = a_sendgrid_event("delivered", mailwright_message=outbox_id)
    with capture_logs() as lines:
        answer = await receive_sendgrid(api, 7, good, {"event": "account_status_change"})  # type: ignore[arg-type]
    assert counted(answer) == (200, 1, 0, 0)
    assert [line["events"] for line in lines] == [{"unreadable": 1, "account_status_change": 1}]


async def test_sendgrid_signature_covers_the_raw_body(api: Api, clock: ManualClock) -> None:
    headers, body = SENDGRID.signed_events([a_sendgrid_event("spamreport")], timestamp=clock.now() // 1000)
    late, late_body = SENDGRID.signed_events(
        [a_sendgrid_event("spamreport")], timestamp=clock.now() // 1000 - 26 * 3600
    )
    not_a_list, nothing = SENDGRID.signed_events([], timestamp=clock.now() // 1000)
    before = await traces(api.engine.database)
    for sent_headers, sent_body, code in (
        (headers, body.strip(), "EVENT_FORGED"),
        (headers, body.replace(b"ada", b"eve"), "EVENT_FORGED"),
        ({}, body, "EVENT_FORGED"),
        (headers, b"", "EVENT_FORGED"),
        (late, late_body, "EVENT_STALE"),
        (not_a_list, nothing + b"x", "EVENT_FORGED"),
    ):
        with capture_logs() as lines:
            answer = await api.anonymous.post("/sendgrid-events", content=sent_body, headers=sent_headers)
        assert (answer.status_code, answer.json()["code"]) == (403, code)
        assert [line["event"] for line in lines] == ["event_rejected"]
    assert await traces(api.engine.database) == before


@pytest.mark.parametrize("body", [b"", b"{}", b"[", b'"spamreport"', b"\xff"])
async def test_signed_body_without_list_is_rejected(api: Api, clock: ManualClock, body: bytes) -> None:
    headers = SENDGRID.signed(body, timestamp=clock.now() // 1000)
    before = await traces(api.engine.database)
    with capture_logs() as lines:
        answer = await api.anonymous.post("/sendgrid-events", content=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "EVENT_MALFORMED")
    assert [line["event"] for line in lines] == ["event_rejected"]
    assert await traces(api.engine.database) == before


async def test_webhook_without_key_names_the_setting(database: Database, clock: ManualClock) -> None:
    fetch = AmazonFetcher()
    sns = SnsVerifier(clock, AmazonCertificates(fetch, clock), fetch)
    webhooks = InboundWebhooks(Reports(database, clock), {"ses": SesWebhook(sns, fetch, clock)})
    async with an_api(database, clock, inbound_webhooks=webhooks) as api:
        for name, (request, complaint) in VENDORS.items():
            headers, body = request(complaint("", ""), clock.now())
            answer = await api.anonymous.post(f"/{name}-events", content=body, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (404, "EVENTS_NOT_CONFIGURED")
        answer = await receive_sendgrid(api, a_sendgrid_event("spamreport"))
        assert (answer.status_code, answer.json()["code"]) == (404, "EVENTS_NOT_CONFIGURED")
        assert "SENDGRID_WEBHOOK_PUBLIC_KEY" in answer.json()["detail"]


# Over a real socket.


async def test_events_arrive_over_a_socket(api: Api, clock: ManualClock) -> None:
    server = uvicorn.Server(uvicorn.Config(create_app(api.engine), port=0, log_config=None, lifespan="off"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0)
    port = server.servers[0].sockets[0].getsockname()[1]
    await a_sent_mail(api, clock, "ses")
    async with socket_client(f"http://127.0.0.1:{port}") as client:
        body = SIGNER.notification(ses_event("Bounce", ADA, message_id="0100-1"))
        assert counted(await client.post("/ses-events", content=body, headers=HEADERS)) == (200, 1, 0, 0)
        headers, events_body = SENDGRID.signed_events([a_sendgrid_event("open")], timestamp=clock.now() // 1000)
        assert (await client.post("/sendgrid-events", content=events_body, headers=headers)).status_code == 200
        assert (await client.post("/ses-events", content=json.dumps({}).encode())).status_code == 400
    server.should_exit = True
    await serving
    assert (await contact_state(api))[0] == "bounced"
