"""Webhooks of Mailgun, Resend, Postmark, SparkPost, Mailjet and Brevo: signatures and what each event means.

The payloads follow the shapes that the vendors document.
"""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest
import resend
from hypothesis import given
from hypothesis import strategies as st
from postmark.models.bounces.enums import BounceType

from mailwright.domain.clock import HOUR, MINUTE, ManualClock
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.providers.brevo import events as brevo
from mailwright.providers.inbound.parsed_events import ParsedEvents, ProviderWebhook
from mailwright.providers.inbound.rejected_events import ForgedEvent, MalformedEvent, StaleEvent
from mailwright.providers.inbound.webhook_secrets import SvixSignature
from mailwright.providers.mailgun import events as mailgun
from mailwright.providers.mailgun.events import MailgunWebhook
from mailwright.providers.mailjet import events as mailjet
from mailwright.providers.postmark import events as postmark
from mailwright.providers.resend import events as resend_events
from mailwright.providers.resend.events import ResendWebhook
from mailwright.providers.sparkpost import events as sparkpost
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

CLOCK = ManualClock()
NOW = CLOCK.now()
ADA = "ada@example.com"
OURS = "018cc251-f400-7aaa-8bbb-0123456789ab"
HARD, SOFT, NOTHING = ContactVerdict.HARD_BOUNCE, ContactVerdict.SOFT_BOUNCE, ContactVerdict.NOTHING
COMPLAINT, LEAVES = ContactVerdict.COMPLAINT, ContactVerdict.UNSUBSCRIBE
DELIVERED, BOUNCED, DEFERRED = EventType.DELIVERED, EventType.BOUNCED, EventType.DEFERRED
OPENED, CLICKED, ACCEPTED = EventType.OPENED, EventType.CLICKED, EventType.ACCEPTED
COMPLAINED, UNSUBSCRIBED = EventType.COMPLAINED, EventType.UNSUBSCRIBED


def mailgun_data(event: str, **fields: Any) -> dict[str, Any]:
    return {
        "event": event,
        "id": "G9Bn5sl1TC6nu79C8C0bwg",
        "timestamp": NOW / 1000 - 60.5,
        "recipient": ADA,
        "message": {"headers": {"message-id": f"{OURS}@example.com", "to": ADA}, "size": 111},
        "user-variables": {"mailwright_message": OURS},
        "tags": [],
        **fields,
    }


def resend_event(kind: str, **data: Any) -> dict[str, Any]:
    common = {"email_id": "56761188-7520-42d8-8898-ff6fc54ce618", "to": [ADA], "tags": {"mailwright_message": OURS}}
    return {"type": kind, "created_at": "2020-01-22T23:41:12.126Z", "data": {**common, **data}}


def postmark_event(kind: str, **fields: Any) -> dict[str, Any]:
    address = {"Email": ADA} if kind in ("Bounce", "SpamComplaint") else {"Recipient": ADA}
    return {
        "RecordType": kind,
        "MessageID": "883953f4-6105-42a2-a16a-77a8eac79483",
        "Metadata": {"mailwright_message": OURS},
        **address,
        **fields,
    }


def brevo_event(kind: str, **fields: Any) -> dict[str, Any]:
    return {
        "event": kind,
        "email": ADA,
        "id": 26224,
        "message-id": f"<{OURS}@example.com>",
        "X-Mailin-custom": OURS,
        "ts_event": NOW // 1000 - 60,
        "ts_epoch": NOW - MINUTE,
        "date": "2020-10-09 00:00:00",
        **fields,
    }


def sparkpost_event(kind: str, group: str = "message_event", **fields: Any) -> dict[str, Any]:
    event = {
        "type": kind,
        "event_id": "92356927693813856",
        "timestamp": str(NOW // 1000 - 60),
        "raw_rcpt_to": ADA,
        "rcpt_to": ADA,
        "transmission_id": "65832150921904138",
        "rcpt_meta": {"mailwright_message": OURS},
        **fields,
    }
    return {"msys": {group: event}}


def sparkpost_bounce(number: int | str, reason: str = "", kind: str = "bounce") -> dict[str, Any]:
    return sparkpost_event(kind, bounce_class=number, error_code="550", raw_reason=reason)


def mailjet_event(kind: str, **fields: Any) -> dict[str, Any]:
    return {
        "event": kind,
        "time": NOW // 1000 - 60,
        "MessageID": 19_421_777_835_146_490,
        "Message_GUID": "1ab23cd4-e567-8901-2345-6789f0ab1c2d",
        "email": ADA,
        "mj_campaign_id": 7257,
        "CustomID": OURS,
        "Payload": "",
        **fields,
    }


def mailjet_bounce(error: str, *, is_hard: bool, comment: str = "") -> dict[str, Any]:
    return mailjet_event("bounce", hard_bounce=is_hard, blocked=is_hard, error=error, comment=comment)


def parsed(name: str, event: Any) -> ParsedEvents:
    webhook, request = VENDORS[name]
    return webhook(CLOCK).parse(*request(event, NOW))


VENDORS: dict[str, tuple[Callable[[ManualClock], ProviderWebhook], Callable[..., tuple[dict[str, str], bytes]]]] = {
    "mailgun": (lambda clock: MailgunWebhook(KEY, clock), mailgun_request),
    "resend": (lambda clock: ResendWebhook(SVIX_SECRET, clock), resend_request),
    "postmark": (
        lambda clock: webhook_of(postmark, SHARED_SECRET, clock),
        lambda event, now: lower(basic_request(event, now)),
    ),
    "sparkpost": (
        lambda clock: webhook_of(sparkpost, SHARED_SECRET, clock),
        lambda event, now: lower(basic_request(event, now)),
    ),
    "mailjet": (
        lambda clock: webhook_of(mailjet, SHARED_SECRET, clock),
        lambda event, now: lower(basic_request(event, now)),
    ),
    "brevo": (
        lambda clock: webhook_of(brevo, SHARED_SECRET, clock),
        lambda event, now: lower(bearer_request(event, now)),
    ),
}


def lower(request: tuple[dict[str, str], bytes]) -> tuple[dict[str, str], bytes]:
    """Write the names of headers as the server does."""
    return {name.lower(): value for name, value in request[0].items()}, request[1]


def failure(code: int | str, text: str, **fields: Any) -> dict[str, Any]:
    return {"delivery-status": {"code": code, "message": text, "attempt-no": 1}, "severity": "permanent", **fields}


MEANINGS = [
    ("mailgun", mailgun_data("accepted"), ACCEPTED, NOTHING),
    ("mailgun", mailgun_data("delivered", **{"delivery-status": {"message": "OK"}}), DELIVERED, NOTHING),
    ("mailgun", mailgun_data("failed", **failure(550, "5.1.1 no such user", reason="bounce")), BOUNCED, HARD),
    ("mailgun", mailgun_data("failed", **failure(605, "", reason="suppress-bounce")), BOUNCED, HARD),
    ("mailgun", mailgun_data("failed", **failure(607, "", reason="suppress-complaint")), BOUNCED, COMPLAINT),
    ("mailgun", mailgun_data("failed", **failure(606, "", reason="suppress-unsubscribe")), BOUNCED, LEAVES),
    ("mailgun", mailgun_data("failed", **failure(452, "mailbox full", reason="old")), BOUNCED, SOFT),
    ("mailgun", mailgun_data("failed", **failure(554, "blocked for spam", reason="generic")), BOUNCED, NOTHING),
    ("mailgun", mailgun_data("failed", **failure(452, "later", severity="temporary")), DEFERRED, NOTHING),
    ("mailgun", mailgun_data("rejected", reject={"reason": "Sandbox"}), BOUNCED, NOTHING),
    ("mailgun", mailgun_data("complained"), COMPLAINED, COMPLAINT),
    ("mailgun", mailgun_data("unsubscribed"), UNSUBSCRIBED, LEAVES),
    ("mailgun", mailgun_data("opened", **{"client-info": {"user-agent": "Mozilla/5.0"}}), OPENED, NOTHING),
    ("mailgun", mailgun_data("clicked", url="https://example.com/a?token=1"), CLICKED, NOTHING),
    ("resend", resend_event("email.sent"), ACCEPTED, NOTHING),
    (
        "resend",
        resend_event("email.delivered", tags=[{"name": "mailwright_message", "value": OURS}]),
        DELIVERED,
        NOTHING,
    ),
    ("resend", resend_event("email.delivery_delayed"), DEFERRED, NOTHING),
    ("resend", resend_event("email.bounced", bounce={"type": "Permanent", "subType": "General"}), BOUNCED, HARD),
    ("resend", resend_event("email.bounced", bounce={"message": "sent a hard bounce message"}), BOUNCED, HARD),
    ("resend", resend_event("email.bounced", bounce={"type": "Transient", "subType": "MailboxFull"}), BOUNCED, SOFT),
    ("resend", resend_event("email.bounced", bounce={"type": "Transient", "subType": "General"}), BOUNCED, NOTHING),
    ("resend", resend_event("email.failed", failed={"reason": "reached_daily_quota"}), BOUNCED, NOTHING),
    ("resend", resend_event("email.suppressed", suppressed={"message": "on the list"}), BOUNCED, NOTHING),
    ("resend", resend_event("email.complained"), COMPLAINED, COMPLAINT),
    ("resend", resend_event("email.opened"), OPENED, NOTHING),
    ("resend", resend_event("email.clicked", click={"link": "https://example.com/a?t=1"}), CLICKED, NOTHING),
    ("postmark", postmark_event("Delivery", DeliveredAt="2020-02-04T15:26:15Z", Details="250 OK"), DELIVERED, NOTHING),
    ("postmark", postmark_event("Bounce", Type="HardBounce", ID=4, BouncedAt="2020-02-04T15:26:15Z"), BOUNCED, HARD),
    ("postmark", postmark_event("Bounce", Type="BadEmailAddress"), BOUNCED, HARD),
    ("postmark", postmark_event("Bounce", Type="SoftBounce", Details="mailbox full"), BOUNCED, SOFT),
    ("postmark", postmark_event("Bounce", Type="SoftBounce", Details="policy"), BOUNCED, NOTHING),
    ("postmark", postmark_event("Bounce", Type="Transient"), DEFERRED, NOTHING),
    ("postmark", postmark_event("Bounce", Type="Blocked", Details="mailbox full"), BOUNCED, NOTHING),
    ("postmark", postmark_event("SpamComplaint", Type="SpamComplaint"), COMPLAINED, COMPLAINT),
    (
        "postmark",
        postmark_event("SubscriptionChange", SuppressSending=True, SuppressionReason="ManualSuppression"),
        UNSUBSCRIBED,
        LEAVES,
    ),
    (
        "postmark",
        postmark_event("SubscriptionChange", SuppressSending=True, SuppressionReason="HardBounce"),
        BOUNCED,
        HARD,
    ),
    ("postmark", postmark_event("Open", UserAgent="Mozilla/5.0"), OPENED, NOTHING),
    ("postmark", postmark_event("Click", OriginalLink="https://example.com/a?t=1"), CLICKED, NOTHING),
    ("brevo", brevo_event("request"), ACCEPTED, NOTHING),
    ("brevo", brevo_event("delivered"), DELIVERED, NOTHING),
    ("brevo", brevo_event("deferred", reason="later"), DEFERRED, NOTHING),
    ("brevo", brevo_event("hard_bounce", reason="user unknown"), BOUNCED, HARD),
    ("brevo", brevo_event("invalid_email"), BOUNCED, HARD),
    ("brevo", brevo_event("soft_bounce", reason="mailbox full"), BOUNCED, SOFT),
    ("brevo", brevo_event("soft_bounce", reason="policy"), BOUNCED, NOTHING),
    ("brevo", brevo_event("soft_bounce", reason="Unable to find MX of domain example.com"), BOUNCED, HARD),
    ("brevo", brevo_event("hard_bounce", reason="550 5.1.1 unauthorized sender"), BOUNCED, NOTHING),
    ("brevo", brevo_event("error", reason="Unable to find MX of domain example.com"), BOUNCED, NOTHING),
    ("brevo", brevo_event("blocked", reason="due to blacklist user"), BOUNCED, NOTHING),
    ("brevo", brevo_event("spam"), COMPLAINED, COMPLAINT),
    ("brevo", brevo_event("unsubscribed"), UNSUBSCRIBED, LEAVES),
    ("brevo", brevo_event("unique_opened"), OPENED, NOTHING),
    ("brevo", brevo_event("click", link="https://example.com/a?t=1"), CLICKED, NOTHING),
    ("mailjet", mailjet_event("sent", smtp_reply="sent (250 2.0.0 OK)"), DELIVERED, NOTHING),
    ("mailjet", mailjet_bounce("user unknown", is_hard=True), BOUNCED, HARD),
    ("mailjet", mailjet_bounce("user unknown", is_hard=False), BOUNCED, SOFT),
    ("mailjet", mailjet_bounce("user unknown", is_hard=True, comment="550 unauthorized sender"), BOUNCED, NOTHING),
    ("mailjet", mailjet_bounce("mailbox inactive", is_hard=True), BOUNCED, HARD),
    ("mailjet", mailjet_bounce("invalid domain", is_hard=True), BOUNCED, HARD),
    ("mailjet", mailjet_bounce("mailbox inactive", is_hard=False), BOUNCED, SOFT),
    ("mailjet", mailjet_bounce("quota exceeded", is_hard=False), BOUNCED, SOFT),
    ("mailjet", mailjet_bounce("quota exceeded", is_hard=True), BOUNCED, SOFT),
    ("mailjet", mailjet_bounce("relay/access denied", is_hard=True), BOUNCED, NOTHING),
    ("mailjet", mailjet_bounce("greylisted", is_hard=False), DEFERRED, NOTHING),
    ("mailjet", mailjet_bounce("sender blocked", is_hard=True), BOUNCED, NOTHING),
    ("mailjet", mailjet_bounce("policy issue", is_hard=False, comment="mailbox full"), BOUNCED, NOTHING),
    ("mailjet", mailjet_bounce("connection issue", is_hard=False), BOUNCED, NOTHING),
    ("mailjet", mailjet_bounce("", is_hard=False, comment="mailbox full"), BOUNCED, SOFT),
    ("mailjet", mailjet_event("blocked", error="preblocked", error_related_to="mailjet"), BOUNCED, NOTHING),
    ("mailjet", mailjet_event("blocked", error="user unknown", error_related_to="recipient"), BOUNCED, HARD),
    ("mailjet", mailjet_event("blocked", error="spam reporter"), BOUNCED, COMPLAINT),
    ("mailjet", mailjet_event("spam", source="JMRPP"), COMPLAINED, COMPLAINT),
    ("mailjet", mailjet_event("unsub", mj_list_id=1), UNSUBSCRIBED, LEAVES),
    ("mailjet", mailjet_event("open", agent="Mozilla/5.0"), OPENED, NOTHING),
    ("mailjet", mailjet_event("click", url="https://example.com/a?t=1"), CLICKED, NOTHING),
    ("sparkpost", sparkpost_event("injection"), ACCEPTED, NOTHING),
    ("sparkpost", sparkpost_event("delivery"), DELIVERED, NOTHING),
    ("sparkpost", sparkpost_event("delay", raw_reason="451 try later", num_retries="2"), DEFERRED, NOTHING),
    ("sparkpost", sparkpost_bounce("1", "???"), BOUNCED, NOTHING),
    ("sparkpost", sparkpost_bounce("10", "550 5.1.1 no such user"), BOUNCED, HARD),
    ("sparkpost", sparkpost_bounce(10, "550 5.1.1 no such user"), BOUNCED, HARD),
    ("sparkpost", sparkpost_bounce("10", "550 5.1.1 unauthorized sender"), BOUNCED, NOTHING),
    ("sparkpost", sparkpost_bounce("10", kind="out_of_band"), BOUNCED, HARD),
    ("sparkpost", sparkpost_bounce("20", "452 mailbox full"), BOUNCED, SOFT),
    ("sparkpost", sparkpost_bounce("20", "451 greylisted"), BOUNCED, NOTHING),
    ("sparkpost", sparkpost_bounce("21", "Unable to find MX of domain example.com"), BOUNCED, HARD),
    ("sparkpost", sparkpost_bounce("21", "DNS timeout"), BOUNCED, NOTHING),
    ("sparkpost", sparkpost_bounce("22", "over quota"), BOUNCED, SOFT),
    ("sparkpost", sparkpost_bounce("23", "mailbox full: message too large"), BOUNCED, NOTHING),
    ("sparkpost", sparkpost_bounce("24"), BOUNCED, NOTHING),
    ("sparkpost", sparkpost_bounce("25", "550 5.7.1 recipient address suppressed"), BOUNCED, NOTHING),
    ("sparkpost", sparkpost_bounce("30"), BOUNCED, HARD),
    ("sparkpost", sparkpost_bounce("40"), BOUNCED, NOTHING),
    *[("sparkpost", sparkpost_bounce(str(each), "mailbox full"), BOUNCED, NOTHING) for each in range(50, 55)],
    ("sparkpost", sparkpost_bounce("70", "connection lost"), BOUNCED, NOTHING),
    ("sparkpost", sparkpost_bounce("90"), UNSUBSCRIBED, LEAVES),
    ("sparkpost", sparkpost_event("policy_rejection", bounce_class="25"), BOUNCED, NOTHING),
    ("sparkpost", sparkpost_event("generation_failure", "gen_event"), BOUNCED, NOTHING),
    ("sparkpost", sparkpost_event("generation_rejection", "gen_event"), BOUNCED, NOTHING),
    ("sparkpost", sparkpost_event("spam_complaint"), COMPLAINED, COMPLAINT),
    ("sparkpost", sparkpost_event("spam_complaint", fbtype="abuse"), COMPLAINED, COMPLAINT),
    ("sparkpost", sparkpost_event("spam_complaint", fbtype="not-spam"), EventType.NOT_SPAM, NOTHING),
    ("sparkpost", sparkpost_event("spam_complaint", fbtype="opt-out"), UNSUBSCRIBED, LEAVES),
    ("sparkpost", sparkpost_event("list_unsubscribe", "unsubscribe_event"), UNSUBSCRIBED, LEAVES),
    ("sparkpost", sparkpost_event("link_unsubscribe", "unsubscribe_event"), UNSUBSCRIBED, LEAVES),
    ("sparkpost", sparkpost_event("open", "track_event"), OPENED, NOTHING),
    ("sparkpost", sparkpost_event("amp_open", "track_event"), OPENED, NOTHING),
    ("sparkpost", sparkpost_event("click", target_link_url="https://example.com/a?t=1"), CLICKED, NOTHING),
]


@pytest.mark.promise("report-once")
@pytest.mark.parametrize(("name", "event", "kind", "verdict"), MEANINGS)
def test_each_event_has_its_meaning(
    name: str, event: Mapping[str, Any], kind: EventType, verdict: ContactVerdict
) -> None:
    (report,) = parsed(name, event).reports
    assert (report.source, report.type, report.verdict) == (name, kind, verdict)
    assert (report.recipient, report.outbox_id) == (ADA, OURS)
    assert report.at <= NOW
    if kind is CLICKED:
        assert report.metadata["url"] == "https://example.com/a"


def hard_bounces(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the event of each provider for a permanent rejection with this text."""
    return [
        ("mailgun", mailgun_data("failed", **failure(550, text, reason="bounce"))),
        ("resend", resend_event("email.bounced", bounce={"type": "Permanent", "subType": "General", "message": text})),
        ("postmark", postmark_event("Bounce", Type="HardBounce", Details=text)),
        ("brevo", brevo_event("hard_bounce", reason=text)),
        ("sparkpost", sparkpost_bounce("10", text)),
        ("mailjet", mailjet_bounce("user unknown", is_hard=True, comment=text)),
    ]


@pytest.mark.promise("bounce-hard-or-soft")
@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("550 5.1.1 rejected by content filter", NOTHING),
        ("550 5.1.1 message refused: policy", NOTHING),
        ("550 5.1.1 Nachricht wegen ihres Inhalts abgelehnt", NOTHING),
        ("552 5.2.2 mailbox full", SOFT),
        ("550 5.1.1 user unknown", HARD),
        ("550 5.1.1 user unknown, see https://help.example/spam-policy", HARD),
        ("550 5.1.1", HARD),
        ("The provider sent a hard bounce message. Sending to such addresses harms your reputation.", HARD),
    ],
)
def test_words_about_content_and_limits_outrank_every_provider(text: str, verdict: ContactVerdict) -> None:
    for name, event in hard_bounces(text):
        if "reputation" in text and name != "resend":  # These are the words of Resend.
            continue
        (report,) = parsed(name, event).reports
        assert report.verdict is verdict, name


def test_every_bounce_type_of_postmark_is_understood() -> None:
    for kind in BounceType:
        found = parsed("postmark", postmark_event("Bounce", Type=kind.value))
        assert not found.skipped, kind


IGNORED = [
    *[("brevo", brevo_event(name)) for name in brevo.IGNORED],
    *[("mailgun", mailgun_data(name)) for name in mailgun.IGNORED],
    *[("resend", resend_event(name)) for name in resend_events.IGNORED],
    *[("postmark", postmark_event("Bounce", Type=name)) for name in ("AutoResponder", "Subscribe", "InboundError")],
    *[("postmark", postmark_event(name)) for name in ("Inbound", "SMTPApiError")],
    ("postmark", postmark_event("SubscriptionChange", SuppressSending=False)),
    *[("mailjet", mailjet_event(name)) for name in mailjet.IGNORED],
    *[("sparkpost", sparkpost_event(name)) for name in sparkpost.IGNORED],
    ("sparkpost", sparkpost_event("spam_complaint", fbtype="auth-failure")),
    *[("sparkpost", sparkpost_bounce(number)) for number in ("60", "80", "100")],
    ("sparkpost", {"msys": {}}),
    ("sparkpost", {"msys": {"relay_message": {"rcpt_to": ADA}}}),
]


def test_events_without_meaning_are_accepted_and_ignored() -> None:
    for name, event in IGNORED:
        assert parsed(name, event) == ParsedEvents(signature=parsed(name, event).signature), event


def test_same_event_has_the_same_key() -> None:
    def key_of(name: str, event: Any) -> str:
        (report,) = parsed(name, event).reports
        return report.key

    assert key_of("brevo", brevo_event("opened")) == key_of("brevo", brevo_event("unique_opened"))
    assert key_of("brevo", brevo_event("opened")) != key_of("brevo", brevo_event("opened", ts_event=1))
    assert key_of("postmark", postmark_event("Open")) == key_of("postmark", postmark_event("Open"))
    data = mailgun_data("opened")
    first, second = (MailgunWebhook(KEY, CLOCK).parse(*mailgun_request(data, NOW, token=each)) for each in "ab")
    assert first.reports[0].key == second.reports[0].key  # A retry is signed again.
    assert key_of("sparkpost", sparkpost_event("open")) == key_of("sparkpost", sparkpost_event("open", user_agent="x"))
    assert key_of("sparkpost", sparkpost_event("open")) != key_of("sparkpost", sparkpost_event("open", event_id="2"))
    assert key_of("mailjet", mailjet_event("open")) == key_of("mailjet", mailjet_event("open"))
    assert key_of("mailjet", mailjet_event("open")) != key_of("mailjet", mailjet_event("open", time=1))
    requests = [resend_request(resend_event("email.sent"), at) for at in (NOW, NOW - 5_000)]
    repeated = [ResendWebhook(SVIX_SECRET, CLOCK).parse(*request) for request in requests]
    assert repeated[0].reports[0].key == repeated[1].reports[0].key


DELIVERIES = {
    "postmark": postmark_event("Delivery"),
    "brevo": brevo_event("delivered"),
    "sparkpost": sparkpost_event("delivery"),
    "mailjet": mailjet_event("sent"),
}


@pytest.mark.parametrize("name", DELIVERIES)
def test_batch_is_parsed_event_by_event(name: str) -> None:
    new = {"event": "new", "RecordType": "new", "msys": {"message_event": {"type": "new"}}}
    found = parsed(name, [DELIVERIES[name], 7, None, new])
    assert (len(found.reports), sum(found.skipped.values())) == (1, 3)


# Signatures.


@pytest.mark.promise("signed-reports")
def test_svix_accepts_what_resends_own_sdk_accepts() -> None:
    """The SDK of Resend verifies the requests of our stand-in, and we verify a published example."""
    headers, body = resend_request(resend_event("email.sent"), int(time.time()) * 1000)
    names = {"id": "svix-id", "timestamp": "svix-timestamp", "signature": "svix-signature"}
    given = {name: headers[header] for name, header in names.items()}
    assert resend.Webhooks.verify({"payload": body.decode(), "headers": given, "webhook_secret": SVIX_SECRET})  # type: ignore[typeddict-item]
    published = {
        "svix-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "svix-timestamp": "1614265330",
        "svix-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    signature = SvixSignature("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", ManualClock(1614265330_000))
    assert signature.check(published, b'{"test": 2432232314}') == published["svix-id"]


def forgeries() -> list[tuple[str, dict[str, str], bytes]]:
    data = mailgun_data("complained")
    mailgun = json.loads(mailgun_request(data, NOW)[1])
    svix, body = resend_request(resend_event("email.complained"), NOW)
    basic, complaint = basic_request(postmark_event("SpamComplaint"))
    return [
        ("mailgun", {}, json.dumps({"event-data": data}).encode()),
        ("mailgun", {}, mailgun_request(data, NOW, key="another key")[1]),
        ("mailgun", {}, json.dumps({**mailgun, "signature": {**mailgun["signature"], "token": "x"}}).encode()),
        ("mailgun", {}, json.dumps({**mailgun, "signature": {**mailgun["signature"], "signature": "é"}}).encode()),
        ("resend", {}, body),
        ("resend", svix, body + b" "),
        ("resend", {**svix, "svix-id": "other"}, body),
        ("resend", {**svix, "svix-timestamp": "9"}, body),
        ("resend", {**svix, "svix-signature": "v1,???  v2,AAAA v1"}, body),
        ("postmark", {}, complaint),
        ("postmark", {"authorization": "Basic ???"}, complaint),
        ("postmark", {"authorization": basic["Authorization"][:-4]}, complaint),
        ("mailjet", {}, json.dumps(mailjet_event("spam")).encode()),
        ("sparkpost", {}, json.dumps([sparkpost_event("spam_complaint")]).encode()),
        ("sparkpost", {"authorization": "Bearer wrong"}, json.dumps([sparkpost_event("spam_complaint")]).encode()),
        ("brevo", {"authorization": "Bearer wrong"}, json.dumps(brevo_event("spam")).encode()),
        ("brevo", {"authorization": f"Digest {SHARED_SECRET}"}, json.dumps(brevo_event("spam")).encode()),
    ]


@pytest.mark.promise("signed-reports")
@pytest.mark.parametrize(("name", "headers", "body"), forgeries())
def test_forged_request_is_rejected(name: str, headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(ForgedEvent):
        VENDORS[name][0](CLOCK).parse(headers, body)


@pytest.mark.promise("signed-reports")
def test_old_signature_is_rejected() -> None:
    for at in (NOW - 10 * HOUR, NOW + 11 * MINUTE):
        with pytest.raises(StaleEvent):
            MailgunWebhook(KEY, CLOCK).parse(*mailgun_request(mailgun_data("complained"), at))
    for at in (NOW - 11 * MINUTE, NOW + 11 * MINUTE):
        with pytest.raises(StaleEvent):
            ResendWebhook(SVIX_SECRET, CLOCK).parse(*resend_request(resend_event("email.sent"), at))


NAMES = ["event", "type", "RecordType", "data", "bounce", "email", "to", "message", "headers", "delivery-status"]
VALUES = st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=5)


@given(
    st.recursive(
        VALUES,
        lambda each: st.lists(each, max_size=3) | st.dictionaries(st.sampled_from(NAMES), each, max_size=4),
        max_leaves=12,
    )
)
def test_any_event_is_parsed_or_rejected(event: Any) -> None:
    known: dict[str, dict[str, Any]] = {
        "mailgun": {"event": "failed"},
        "resend": {"type": "email.bounced"},
        "brevo": {"event": "click"},
    }
    known["postmark"] = {"RecordType": "Bounce"}
    known["mailjet"] = {"event": "bounce", "error": event, "comment": event, "hard_bounce": event}
    known["sparkpost"] = {"msys": {"message_event": {"type": "bounce", "bounce_class": event, "raw_reason": event}}}
    for name, good in known.items():
        for each in (event, {**event, **good} if isinstance(event, dict) else good):
            with suppress(MalformedEvent):
                assert all(isinstance(report, Report) for report in parsed(name, each).reports)


@pytest.mark.parametrize(
    "make",
    [
        lambda: MailgunWebhook(" ", CLOCK),
        lambda: ResendWebhook("whsec_???", CLOCK),
        lambda: ResendWebhook("", CLOCK),
        lambda: webhook_of(postmark, "short", CLOCK),
        lambda: webhook_of(sparkpost, "short", CLOCK),
        lambda: webhook_of(mailjet, "short", CLOCK),
        lambda: webhook_of(brevo, "пароль-пароль-пароль", CLOCK),
    ],
)
def test_unusable_secret_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationInvalid):
        make()
