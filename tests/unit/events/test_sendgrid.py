"""SendGrid signatures and events."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.domain.clock import MINUTE, SECOND, ManualClock
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.providers.inbound.parsed_events import ParsedEvents
from mailwright.providers.inbound.rejected_events import EventRejected, ForgedEvent, MalformedEvent, StaleEvent
from mailwright.providers.sendgrid import events as sendgrid
from mailwright.providers.sendgrid.signature import SIGNATURE_HEADER, TIMESTAMP_HEADER, SendGridSignature
from tests.standins.sendgrid import SendGridStandIn

FIXTURES = Path(__file__).resolve().parents[4] / "shared" / "fixtures" / "sendgrid"
NOW = ManualClock().now()
OURS = "018cc251-f400-7aaa-8bbb-0123456789ab"
SIGNER = SendGridStandIn()
EVENTS = [{"event": "delivered", "email": "ada@example.com", "sg_event_id": "e-1"}]


def check(headers: Mapping[str, str], body: bytes, *, key: str = SIGNER.public_key, now: int = NOW) -> None:
    SendGridSignature(key, ManualClock(now)).check(headers, body)


def an_event(name: str, **fields: Any) -> dict[str, Any]:
    common = {
        "event": name,
        "email": "ada@example.com",
        "timestamp": NOW // 1000 - 60,
        "sg_event_id": "event-1",
        "sg_message_id": "abc123.filter0001.16648.5515E0B88.0",
    }
    return {key: value for key, value in {**common, **fields}.items() if value is not None}


def read(*events: Any) -> ParsedEvents:
    return sendgrid.parse_events(json.dumps(events).encode(), NOW)


def only(event: dict[str, Any]) -> Report:
    (report,) = read(event).reports
    return report


# The signature.


@pytest.mark.promise("signed-reports")
@pytest.mark.skipif(not FIXTURES.is_dir(), reason="the real vector is not here")
def test_genuine_sendgrid_signature_is_accepted() -> None:
    vector = json.loads((FIXTURES / "signed_event_vector.json").read_text())
    body = (FIXTURES / "signed_event_body.bin").read_bytes()
    key, headers = vector["public_key_base64_spki"], vector["headers"]
    now = int(headers[TIMESTAMP_HEADER]) * SECOND
    check(headers, body, key=key, now=now)
    wrong = {**headers, SIGNATURE_HEADER: vector["wrong_signature"]}
    for forged in (
        lambda: check(headers, body.rstrip(), key=key, now=now),
        lambda: check(headers, json.dumps(json.loads(body)).encode(), key=key, now=now),
        lambda: check(wrong, body, key=key, now=now),
        lambda: check(headers, body, key=vector["wrong_public_key"], now=now),
    ):
        with pytest.raises(ForgedEvent):
            forged()
    (report,) = sendgrid.parse_events(body, now).reports
    assert (report.verdict, report.provider_message_id) == (ContactVerdict.HARD_BOUNCE, "LRzXl_NHStOGhQ4kofSm_A")


@pytest.mark.promise("signed-reports")
def test_signature_covers_body_and_time() -> None:
    headers, body = SIGNER.signed_events(EVENTS, timestamp=NOW // 1000)
    check(headers, body)
    later = str(NOW // 1000 + 1)
    empty: dict[str, str] = {}
    forgeries: list[tuple[dict[str, str], bytes]] = [
        (headers, body + b" "),
        (headers, body.replace(b"ada", b"bob")),
        (headers, b""),
        ({**headers, TIMESTAMP_HEADER: later}, body),
        ({**headers, SIGNATURE_HEADER: headers[SIGNATURE_HEADER][:-4]}, body),
        ({**headers, SIGNATURE_HEADER: "not base64!"}, body),
        ({**headers, SIGNATURE_HEADER: ""}, body),
        ({TIMESTAMP_HEADER: headers[TIMESTAMP_HEADER]}, body),
        ({SIGNATURE_HEADER: headers[SIGNATURE_HEADER]}, body),
        (empty, body),
        (SendGridStandIn().signed_events(EVENTS, timestamp=NOW // 1000)[0], body),
    ]
    for forged_headers, forged_body in forgeries:
        with pytest.raises(ForgedEvent):
            check(forged_headers, forged_body)


@pytest.mark.parametrize(
    ("age", "is_fresh"), [(0, True), (24 * 60 + 59, True), (25 * 60 + 1, False), (-9, True), (-11, False)]
)
def test_signature_is_valid_during_sendgrid_retries(age: int, is_fresh: bool) -> None:
    headers, body = SIGNER.signed_events(EVENTS, timestamp=(NOW - age * MINUTE) // 1000)
    if is_fresh:
        check(headers, body)
    else:
        with pytest.raises(StaleEvent):
            check(headers, body)


@pytest.mark.promise("signed-reports")
@pytest.mark.parametrize("timestamp", ["", "-1", "1e9", "٣", " 1800000000", "1800000000.0", "9" * 5000, "0x1"])
def test_invalid_timestamp_is_rejected(timestamp: str) -> None:
    headers, body = SIGNER.signed_events(EVENTS, timestamp=NOW // 1000)
    with pytest.raises(EventRejected):
        check({**headers, TIMESTAMP_HEADER: timestamp}, body)


def test_pem_key_is_accepted() -> None:
    headers, body = SIGNER.signed_events(EVENTS, timestamp=NOW // 1000)
    key = SIGNER.public_key
    check(headers, body, key=f"-----BEGIN PUBLIC KEY-----\n{key[:64]}\n{key[64:]}\n-----END PUBLIC KEY-----\n")


@pytest.mark.parametrize("key", ["", "no key", "AAAA", "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE="])
def test_invalid_key_is_reported(key: str) -> None:
    with pytest.raises(ConfigurationInvalid, match="SendGrid"):
        SendGridSignature(key, ManualClock())


# Parsed events.


@pytest.mark.parametrize(
    ("event", "type_", "verdict"),
    [
        (an_event("processed"), EventType.ACCEPTED, ContactVerdict.NOTHING),
        (an_event("delivered", response="250 OK"), EventType.DELIVERED, ContactVerdict.NOTHING),
        (an_event("deferred", attempt="5"), EventType.DEFERRED, ContactVerdict.NOTHING),
        (an_event("bounce", type="bounce", status="5.1.1"), EventType.BOUNCED, ContactVerdict.HARD_BOUNCE),
        (an_event("bounce", type="blocked", status="5.7.1"), EventType.BOUNCED, ContactVerdict.NOTHING),
        (an_event("bounce", type="blocked", status="5.2.2"), EventType.BOUNCED, ContactVerdict.SOFT_BOUNCE),
        (an_event("bounce", type="blocked", reason="550 mailbox full"), EventType.BOUNCED, ContactVerdict.SOFT_BOUNCE),
        (an_event("bounce", type="blocked", reason="550 go away"), EventType.BOUNCED, ContactVerdict.NOTHING),
        (an_event("bounce", status="5.1.1"), EventType.BOUNCED, ContactVerdict.HARD_BOUNCE),
        (an_event("bounce", status="4.2.2"), EventType.BOUNCED, ContactVerdict.SOFT_BOUNCE),
        (an_event("bounce", type="new", status="5.1.1"), EventType.BOUNCED, ContactVerdict.SOFT_BOUNCE),
        (an_event("dropped", reason="Bounced Address"), EventType.BOUNCED, ContactVerdict.HARD_BOUNCE),
        (an_event("dropped", reason="Invalid"), EventType.BOUNCED, ContactVerdict.HARD_BOUNCE),
        (an_event("dropped", reason="Spam Reporting Address"), EventType.BOUNCED, ContactVerdict.COMPLAINT),
        (an_event("dropped", reason="Unsubscribed Address"), EventType.BOUNCED, ContactVerdict.UNSUBSCRIBE),
        (an_event("dropped", reason="Spam Content"), EventType.BOUNCED, ContactVerdict.NOTHING),
        (an_event("dropped", reason="Invalid SMTPAPI header"), EventType.BOUNCED, ContactVerdict.NOTHING),
        (an_event("dropped", reason="Recipient List over Package Quota"), EventType.BOUNCED, ContactVerdict.NOTHING),
        (an_event("dropped", reason="Something new"), EventType.BOUNCED, ContactVerdict.NOTHING),
        (an_event("dropped"), EventType.BOUNCED, ContactVerdict.NOTHING),
        (an_event("open", sg_machine_open=True), EventType.OPENED, ContactVerdict.NOTHING),
        (an_event("click", url="https://shop.example/a?token=s3cret"), EventType.CLICKED, ContactVerdict.NOTHING),
        (an_event("spamreport"), EventType.COMPLAINED, ContactVerdict.COMPLAINT),
        (an_event("unsubscribe"), EventType.UNSUBSCRIBED, ContactVerdict.UNSUBSCRIBE),
        (an_event("group_unsubscribe", asm_group_id=10), EventType.UNSUBSCRIBED, ContactVerdict.UNSUBSCRIBE),
    ],
    ids=lambda value: (
        f"{value['event']} {value.get('type', value.get('reason', ''))}" if isinstance(value, dict) else ""
    ),
)
def test_each_event_type_is_parsed(event: dict[str, Any], type_: EventType, verdict: ContactVerdict) -> None:
    report = only(event)
    assert (report.type, report.verdict, report.recipient) == (type_, verdict, "ada@example.com")
    assert "s3cret" not in str(report)


@pytest.mark.parametrize(
    ("classification", "verdict"),
    [
        ("Mailbox Unavailable", ContactVerdict.SOFT_BOUNCE),
        ("Invalid Address", ContactVerdict.SOFT_BOUNCE),
        ("Reputation", ContactVerdict.NOTHING),
        ("Content", ContactVerdict.NOTHING),
        ("Frequency or Volume Too High", ContactVerdict.NOTHING),
        ("Unclassified", ContactVerdict.SOFT_BOUNCE),
    ],
)
def test_reputation_and_content_blocks_do_not_count(classification: str, verdict: ContactVerdict) -> None:
    report = only(an_event("bounce", type="blocked", status="4.2.2", bounce_classification=classification))
    assert report.verdict is verdict


@pytest.mark.parametrize(
    ("reason", "verdict"),
    [
        ("550 5.1.1 rejected by content filter", ContactVerdict.NOTHING),
        ("552 5.2.2 mailbox full", ContactVerdict.SOFT_BOUNCE),
        ("550 5.1.1 user unknown, see our policy", ContactVerdict.HARD_BOUNCE),
    ],
)
def test_words_about_content_and_limits_outrank_a_hard_bounce(reason: str, verdict: ContactVerdict) -> None:
    assert only(an_event("bounce", type="bounce", status="5.1.1", reason=reason)).verdict is verdict


def test_bounce_text_is_kept() -> None:
    words = {"reason": "500 unknown recipient", "status": "5.0.0", "bounce_classification": "Invalid Address"}
    report = only(an_event("bounce", type="bounce", **words))
    assert (report.bounce_type, report.bounce_subtype) == ("bounce", "Invalid Address")
    assert report.metadata == {"reason": "500 unknown recipient", "status": "5.0.0"}
    assert only(an_event("open", sg_machine_open=True)).metadata == {"isMachine": True}


@pytest.mark.skipif(not FIXTURES.is_dir(), reason="SendGrid's examples are not here")
def test_sendgrid_examples_are_parsed() -> None:
    body = (FIXTURES / "twiliodocs__all_event_types.json").read_bytes()
    parsed = sendgrid.parse_events(body, NOW)
    assert Counter(each.type.value for each in parsed.reports) == {
        "accepted": 1,
        "bounce": 3,
        "click": 1,
        "complaint": 1,
        "deferred": 1,
        "delivered": 1,
        "open": 1,
        "unsubscribe": 2,
    }
    assert parsed.skipped == {"group_resubscribe": 1, "account_status_change": 1}
    assert not any(
        (each.provider_message_id or "").strip() != (each.provider_message_id or "") for each in parsed.reports
    )


# Message ids.


def test_our_id_is_an_event_field() -> None:
    report = only(an_event("delivered", mailwright_message=OURS))
    assert (report.outbox_id, report.provider_message_id) == (OURS, "abc123")
    for given_id in (None, "", "7", 7, ["x"]):
        assert only(an_event("delivered", mailwright_message=given_id)).outbox_id is None


def test_late_bounce_has_only_an_address() -> None:
    report = only(an_event("bounce", type="bounce", sg_message_id=None))
    assert (report.outbox_id, report.provider_message_id, report.recipient) == (None, None, "ada@example.com")


def test_copies_of_an_event_have_the_same_key() -> None:
    assert only(an_event("open")).key == only(an_event("open", sg_message_id=None)).key
    assert only(an_event("open")).key != only(an_event("open", sg_event_id="event-2")).key
    nameless = an_event("open", sg_event_id=None)
    assert only(nameless).key == only(dict(reversed(nameless.items()))).key
    assert only(nameless).key != only({**nameless, "timestamp": 7}).key
    long = [only(an_event("open", sg_event_id="x" * 3_000 + end)).key for end in ("a", "b")]
    assert len(set(long)) == 2
    assert max(map(len, long)) < 250


@pytest.mark.parametrize(
    ("written", "read_as"),
    [(1_700_000_000, 1_700_000_000_000), ("1700000000", 1_700_000_000_000), (None, NOW), ("soon", NOW), (1e300, NOW)],
)
def test_time_formats_are_parsed(written: Any, read_as: int) -> None:
    assert only(an_event("open", timestamp=written)).at == read_as


# Invalid input.


def test_invalid_event_does_not_block_others() -> None:
    bad = [
        7,
        None,
        [],
        {},
        {"event": 7},
        an_event("open", email=None),
        an_event("open", email=7),
        an_event("open", email=""),
    ]
    parsed = read(*bad, an_event("delivered"), {"event": "account_status_change"}, an_event("surprise"))
    assert [each.type for each in parsed.reports] == [EventType.DELIVERED]
    assert parsed.skipped == {"unreadable": len(bad), "account_status_change": 1, "surprise": 1}


@pytest.mark.parametrize("body", [b"", b"{", b"{}", b"7", b'"x"', b"\xff", b"[" * 100_000])
def test_body_without_list_is_rejected(body: bytes) -> None:
    with pytest.raises(MalformedEvent):
        sendgrid.parse_events(body, NOW)


ANYTHING = st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.lists(st.integers(), max_size=2)
FIELDS = ["email", "timestamp", "type", "status", "reason", "url", "sg_event_id", "sg_message_id", "asm_group_id"]


@given(
    st.lists(st.tuples(st.sampled_from([*sendgrid.EVENT_PARSERS]), st.dictionaries(st.sampled_from(FIELDS), ANYTHING)))
)
def test_every_event_is_reported_or_counted(events: list[tuple[str, dict[str, Any]]]) -> None:
    parsed = read(*({**fields, "event": name} for name, fields in events))
    assert len(parsed.reports) + sum(parsed.skipped.values()) == len(events)
