"""Events of every provider with odd values are recorded, ignored or refused, never an internal error."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mailwright.domain.clock import ManualClock
from mailwright.events.outbound.signature import signature_header
from mailwright.storage.database import Database
from tests.api import Api, an_api
from tests.contract.events.test_inbound import ADA, SENDGRID, SIGNER, a_sent_mail, webhooks_of
from tests.examples import examples
from tests.foreign import changed, to_json
from tests.standins.sns import HEADERS, ses_event
from tests.standins.vendors import basic_request, bearer_request, mailgun_request, resend_request
from tests.unit.events import test_vendor_events as vendors

PASSWORD: Final = "a password of the administrator"
OURS: Final = "018cc251-f400-7aaa-8bbb-0123456789ab"
Written = tuple[dict[str, str], bytes]


@dataclass(frozen=True)
class Webhook:
    path: str
    samples: tuple[Any, ...]
    write: Callable[[Any, int], Written]  # The event and the time of the request.


def from_ses(event: Any, _now: int) -> Written:
    return HEADERS, SIGNER.notification(to_json(event).decode())


def from_sendgrid(event: Any, now: int) -> Written:
    body = to_json(event)
    return SENDGRID.signed(body, timestamp=now // 1000), body


NUMBERS = count()
WEBHOOKS: Final = {
    "ses": Webhook(
        "/ses-events",
        tuple(
            ses_event(kind, ADA, outbox_id=OURS, message_id="0100-1")
            for kind in ("Bounce", "Complaint", "Delivery", "Open", "Send")
        ),
        from_ses,
    ),
    "sendgrid": Webhook(
        "/sendgrid-events",
        tuple(
            [
                {
                    "event": kind,
                    "email": ADA,
                    "timestamp": 1_700_000_000,
                    "sg_event_id": kind,
                    "sg_message_id": "0100-1.filter",
                    "mailwright_message": OURS,
                    "reason": "550 5.1.1 unknown",
                    "status": "5.1.1",
                    "type": "bounce",
                    "url": "https://shop.example/?a=b",
                    "useragent": "Mailer/1.0",
                }
            ]
            for kind in ("processed", "delivered", "bounce", "dropped", "deferred", "open", "click", "spamreport")
        ),
        from_sendgrid,
    ),
    "mailgun": Webhook(
        "/mailgun-events",
        tuple(
            vendors.mailgun_data(kind, severity="permanent", **{"delivery-status": {"code": 550, "message": "unknown"}})
            for kind in ("accepted", "delivered", "failed", "opened", "clicked", "complained", "unsubscribed")
        ),
        lambda event, now: mailgun_request(event, now, token=f"{next(NUMBERS):050}"),
    ),
    "resend": Webhook(
        "/resend-events",
        tuple(
            vendors.resend_event(f"email.{kind}", bounce={"type": "Permanent", "subType": "General", "message": "550"})
            for kind in ("sent", "delivered", "bounced", "complained", "opened", "clicked", "failed")
        ),
        resend_request,
    ),
    "postmark": Webhook(
        "/postmark-events",
        tuple(
            vendors.postmark_event(kind, Type="HardBounce", TypeCode=1, Details="550", BouncedAt="2026-11-01T10:00:00Z")
            for kind in ("Bounce", "SpamComplaint", "Delivery", "Open", "Click", "SubscriptionChange")
        ),
        basic_request,
    ),
    "brevo": Webhook(
        "/brevo-events",
        tuple(
            vendors.brevo_event(kind, reason="550 unknown", link="https://shop.example/")
            for kind in (
                "hard_bounce",
                "soft_bounce",
                "delivered",
                "spam",
                "unsubscribed",
                "opened",
                "click",
                "blocked",
            )
        ),
        bearer_request,
    ),
    "mailjet": Webhook(
        "/mailjet-events",
        (
            vendors.mailjet_bounce("user unknown", is_hard=True, comment="550"),
            *(vendors.mailjet_event(kind) for kind in ("sent", "spam", "blocked", "unsub", "open", "click")),
        ),
        basic_request,
    ),
    "sparkpost": Webhook(
        "/sparkpost-events",
        (
            [vendors.sparkpost_bounce(10, "550 unknown")],
            *([vendors.sparkpost_event(kind)] for kind in ("delivery", "spam_complaint", "delay", "policy_rejection")),
            *([vendors.sparkpost_event(kind, "track_event")] for kind in ("open", "click")),
        ),
        basic_request,
    ),
}


@dataclass(frozen=True)
class Receiving:
    api: Api
    sent: Mapping[str, str]  # The message of each provider.
    secret: str  # Of a system that reports with its own signature.

    async def post(self, path: str, written: Written) -> None:
        headers, body = written
        answer = await self.api.anonymous.post(path, content=body, headers=headers)
        assert answer.status_code < 500, (answer.text, body)


@pytest.fixture
async def receiving(database: Database, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Receiving]:
    webhooks = webhooks_of(database, clock, tmp_path)
    async with an_api(database, clock, inbound_webhooks=webhooks, admin_password=PASSWORD) as api:
        sent = {name: await a_sent_mail(api, clock, name) for name in WEBHOOKS}
        administrator = {"Authorization": f"Bearer {PASSWORD}"}
        answer = await api.anonymous.post("/v1/report-sources", json={"name": "postfix-1"}, headers=administrator)
        yield Receiving(api, sent, str(answer.json()["secret"]))


SLOWLY = settings(deadline=None, max_examples=examples(60), suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", WEBHOOKS)
@SLOWLY
@given(data=st.data())
async def test_odd_event_of_a_provider_is_recorded_or_refused(
    receiving: Receiving, name: str, data: st.DataObject
) -> None:
    webhook = WEBHOOKS[name]
    event = json.loads(
        to_json(data.draw(changed(*webhook.samples))).replace(OURS.encode(), receiving.sent[name].encode())
    )
    try:
        written = webhook.write(event, receiving.api.engine.clock.now())
    except UnicodeEncodeError:  # Nothing with half a character can be signed.
        return
    await receiving.post(webhook.path, written)


REPORTS: Final = (
    {"type": "bounce", "bounce": "hard", "messageId": OURS, "code": "5.1.1", "at": "2026-11-01T10:00:00Z"},
    {"type": "delivered", "messageId": f"<{OURS}@example.com>", "at": "2026-11-01T10:00:00Z"},
    {"type": "complaint", "messageId": OURS, "email": ADA},
)


@SLOWLY
@given(report=changed(*REPORTS))
async def test_odd_signed_report_is_recorded_or_refused(receiving: Receiving, report: Any) -> None:
    body = to_json({"reports": [report]}).replace(OURS.encode(), receiving.sent["ses"].encode())
    seconds = receiving.api.engine.clock.now() // 1000
    await receiving.post(
        "/v1/reports/postfix-1", ({"Mailwright-Signature": signature_header([receiving.secret], seconds, body)}, body)
    )
