"""SES events: both formats, every type, one report per recipient, and stable keys."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.domain.clock import ManualClock, isoformat
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.providers.inbound.rejected_events import MalformedEvent
from mailwright.providers.ses import event_format as ses

FIXTURES = Path(__file__).resolve().parents[4] / "shared" / "fixtures" / "ses"
NOW = ManualClock().now()
OURS = "018cc251-f400-7aaa-8bbb-0123456789ab"
SECRET_LINK = "https://shop.example/sale/today?token=s3cret#top"


def an_event(kind: str, part: str, content: Any, *, dialect: str = "eventType", **message: Any) -> str:
    common = {"messageId": "0100-1", "timestamp": "2026-11-01T10:00:00.000Z", "destination": ["ada@example.com"]}
    return json.dumps({dialect: kind, "mail": {**common, **message}, part: content})


def a_bounce(*recipients: dict[str, str], kind: str = "Permanent", subtype: str = "General", **more: Any) -> str:
    content = {
        "bounceType": kind,
        "bounceSubType": subtype,
        "bouncedRecipients": list(recipients),
        "timestamp": "2026-11-01T10:00:01.000Z",
        "feedbackId": "feedback-1",
    }
    return an_event("Bounce", "bounce", content, **more)


def to(email: str, **words: str) -> dict[str, str]:
    return {"emailAddress": email, **words}


def only(text: str) -> Report:
    (report,) = ses.parse_event(text, NOW).reports
    return report


# Amazon's examples.

EXAMPLES = {
    "events/awsdocs__bounce": [("bounce", "hard_bounce", "recipient@example.com")],
    "events/awsdocs__click": [("click", "nothing", "recipient@example.com")],
    "events/awsdocs__complaint": [("complaint", "complaint", "recipient@example.com")],
    "events/awsdocs__delayed-delivery": [("deferred", "nothing", "recipient@example.com")],
    "events/awsdocs__delivery": [("delivered", "nothing", "recipient@example.com")],
    "events/awsdocs__failure": [("bounce", "nothing", "recipient@example.com")],
    "events/awsdocs__open": [("open", "nothing", "recipient@example.com")],
    "events/awsdocs__reject": [("bounce", "nothing", "sender@example.com")],
    "events/awsdocs__send": [("accepted", "nothing", "recipient@example.com")],
    "events/awsdocs__subscription": [("unsubscribe", "leaves", "recipient@example.com")],
    "feedback/awsdocs__bounce-no-dsn": [
        ("bounce", "hard_bounce", "jane@example.com"),
        ("bounce", "hard_bounce", "richard@example.com"),
    ],
    "feedback/awsdocs__bounce-with-dsn": [("bounce", "hard_bounce", "jane@example.com")],
    "feedback/awsdocs__complaint-no-feedback": [("complaint", "complaint", "richard@example.com")],
    "feedback/awsdocs__complaint-with-feedback": [("complaint", "complaint", "richard@example.com")],
    "feedback/awsdocs__delivery": [("delivered", "nothing", "jane@example.com")],
}


@pytest.mark.skipif(not FIXTURES.is_dir(), reason="Amazon's examples are not here")
@pytest.mark.parametrize("name", EXAMPLES)
def test_amazon_examples_are_parsed(name: str) -> None:
    event = json.loads((FIXTURES / f"{name}.json").read_text())
    parsed = ses.parse_event(json.dumps(event), NOW)
    assert [(each.type, each.verdict, each.recipient) for each in parsed.reports] == EXAMPLES[name]
    for report in parsed.reports:
        assert report.provider_message_id == event["mail"]["messageId"]
        assert (isoformat(report.at) or "")[:4] in ("2016", "2017", "2018", "2020", "2022")


@pytest.mark.skipif(not FIXTURES.is_dir(), reason="Amazon's examples are not here")
def test_every_amazon_example_is_tested() -> None:
    found = {f"{file.parent.name}/{file.stem}" for file in FIXTURES.glob("*/*.json")}
    assert found == set(EXAMPLES)


# Bounces.


def test_only_bounced_recipients_are_reported() -> None:
    text = a_bounce(to("bob@example.com"), destination=["ada@example.com", "bob@example.com", "eve@example.com"])
    report = only(text)
    assert (report.recipient, report.verdict) == ("bob@example.com", ContactVerdict.HARD_BOUNCE)
    assert (report.bounce_type, report.bounce_subtype) == ("Permanent", "General")


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        ({"action": "failed", "status": "5.1.1"}, ContactVerdict.HARD_BOUNCE),
        ({}, ContactVerdict.HARD_BOUNCE),
        ({"action": "delayed", "status": "4.0.0"}, ContactVerdict.NOTHING),
        ({"action": "Delayed"}, ContactVerdict.NOTHING),
        ({"action": "failed", "status": "4.4.7"}, ContactVerdict.SOFT_BOUNCE),
        ({"action": "delivered", "status": "2.0.0"}, ContactVerdict.NOTHING),
        ({"action": "relayed"}, ContactVerdict.NOTHING),
        ({"diagnosticCode": "smtp; 550 5.1.1 rejected by content filter"}, ContactVerdict.NOTHING),
        ({"diagnosticCode": "smtp; 552 5.2.2 mailbox full"}, ContactVerdict.SOFT_BOUNCE),
        ({"diagnosticCode": "smtp; 550 5.1.1 user unknown, see our policy"}, ContactVerdict.HARD_BOUNCE),
    ],
)
def test_recipients_of_permanent_bounce_are_judged_separately(words: dict[str, str], verdict: ContactVerdict) -> None:
    reports = ses.parse_event(
        a_bounce(to("ada@example.com", status="5.1.1"), to("bob@example.com", **words)), NOW
    ).reports
    assert [each.verdict for each in reports] == [ContactVerdict.HARD_BOUNCE, verdict]


@pytest.mark.parametrize(
    ("kind", "subtype"),
    [
        ("Transient", "General"),
        ("Transient", "MailboxFull"),
        ("Undetermined", "Undetermined"),
        ("SomethingNew", "New"),
    ],
)
def test_only_permanent_bounces_are_hard(kind: str, subtype: str) -> None:
    report = only(a_bounce(to("ada@example.com", status="5.2.2"), kind=kind, subtype=subtype))
    assert (report.verdict, report.bounce_type, report.bounce_subtype) == (ContactVerdict.SOFT_BOUNCE, kind, subtype)


@pytest.mark.parametrize(
    ("subtype", "words", "verdict"),
    [
        ("MailboxFull", {}, ContactVerdict.SOFT_BOUNCE),
        ("ContentRejected", {"status": "5.2.2"}, ContactVerdict.NOTHING),
        ("AttachmentRejected", {"status": "5.2.2"}, ContactVerdict.NOTHING),
        ("MessageTooLarge", {"status": "5.2.3"}, ContactVerdict.NOTHING),
        ("General", {}, ContactVerdict.NOTHING),
        ("General", {"status": "4.2.1"}, ContactVerdict.SOFT_BOUNCE),
        ("General", {"status": "4.4.7"}, ContactVerdict.SOFT_BOUNCE),
        ("General", {"status": "4.4.7", "diagnosticCode": "smtp; 421 poor reputation"}, ContactVerdict.NOTHING),
        ("General", {"status": "4.7.1", "diagnosticCode": "smtp; 421 try again"}, ContactVerdict.NOTHING),
        ("General", {"status": "5.2.3"}, ContactVerdict.NOTHING),
        ("General", {"diagnosticCode": "smtp; 452 mailbox full"}, ContactVerdict.SOFT_BOUNCE),
    ],
)
def test_transient_bounce_counts_only_about_address(
    subtype: str, words: dict[str, str], verdict: ContactVerdict
) -> None:
    assert only(a_bounce(to("ada@example.com", **words), kind="Transient", subtype=subtype)).verdict is verdict


# Complaints.


@pytest.mark.parametrize(
    ("feedback", "verdict"),
    [
        (None, ContactVerdict.COMPLAINT),
        ("abuse", ContactVerdict.COMPLAINT),
        ("fraud", ContactVerdict.COMPLAINT),
        ("virus", ContactVerdict.COMPLAINT),
        ("other", ContactVerdict.COMPLAINT),
        ("new-kind", ContactVerdict.COMPLAINT),
        ("not-spam", ContactVerdict.NOTHING),
        ("Not_Spam", ContactVerdict.NOTHING),
        ("auth-failure", None),
    ],
)
def test_complaint_counts_unless_not_spam(feedback: str | None, verdict: ContactVerdict | None) -> None:
    content = {"complainedRecipients": [to("ada@example.com")], "feedbackId": "f", "complaintFeedbackType": feedback}
    reports = ses.parse_event(an_event("Complaint", "complaint", {**content, "complaintSubType": None}), NOW).reports
    type_ = EventType.NOT_SPAM if verdict is ContactVerdict.NOTHING else EventType.COMPLAINED
    assert [(each.type, each.verdict) for each in reports] == ([(type_, verdict)] if verdict else [])


# Other events.


@pytest.mark.parametrize(
    "events",
    [
        ("Open", "open", {"timestamp": "2026-11-01T10:00:00Z"}),
        ("Click", "click", {"timestamp": "2026-11-01T10:00:00Z", "link": SECRET_LINK}),
        ("Send", "send", {}),
        ("Subscription", "subscription", {"newTopicPreferences": {"unsubscribeAll": True}}),
    ],
)
def test_recipient_is_unknown_among_several(events: tuple[str, str, Any]) -> None:
    assert only(an_event(*events)).recipient == "ada@example.com"
    assert only(an_event(*events, destination=["ada@example.com", "bob@example.com"])).recipient is None


def test_ses_topic_preferences_are_ignored() -> None:
    preferences = {
        "unsubscribeAll": False,
        "topicSubscriptionStatus": [{"topicName": "a", "subscriptionStatus": "OptOut"}],
    }
    parsed = ses.parse_event(an_event("Subscription", "subscription", {"newTopicPreferences": preferences}), NOW)
    assert parsed.is_known
    assert parsed.reports == ()


def test_link_is_stored_without_query() -> None:
    report = only(an_event("Click", "click", {"link": SECRET_LINK, "ipAddress": "192.0.2.1", "timestamp": "x"}))
    assert report.metadata == {"url": "https://shop.example/sale/today", "isMachine": False}


@pytest.mark.parametrize("text", ["Successfully validated SNS topic for Amazon SES event publishing.", "", "{"])
def test_plain_text_is_no_event(text: str) -> None:
    parsed = ses.parse_event(text, NOW)
    assert (parsed.reports, parsed.is_known) == ((), False)


def test_unknown_event_has_no_reports() -> None:
    assert ses.parse_event(an_event("Surprise", "surprise", {}), NOW) == ses.ParsedSesEvent(
        "Surprise", (), is_known=False
    )
    assert ses.parse_event('{"notificationType": "Received"}', NOW) == ses.ParsedSesEvent(
        "Received", (), is_known=False
    )


# Message ids.


@pytest.mark.parametrize(
    "message",
    [
        {"tags": {"mailwright-message": [OURS], "ses:configuration-set": ["a"]}},
        {"tags": {"mailwright-message": OURS}},
        {"headers": [{"name": "X-Mailwright-Message", "value": OURS}]},
        {"headers": [{"name": "message-id", "value": f"<{OURS}@example.com>"}]},
        {"commonHeaders": {"messageId": f"<{OURS}@example.com>"}},
        {"tags": None, "headers": "none", "commonHeaders": {"messageId": f"{OURS}@example.com"}},
        {
            "tags": {"mailwright-message": ["not-ours"]},
            "headers": [7, {"name": 7}, {"name": "X-Mailwright-Message", "value": OURS}],
        },
    ],
)
def test_our_id_is_found_in_tags_and_headers(message: dict[str, Any]) -> None:
    report = only(an_event("Send", "send", {}, **message))
    assert (report.outbox_id, report.provider_message_id) == (OURS, "0100-1")


def test_foreign_id_is_ignored() -> None:
    assert only(an_event("Send", "send", {}, commonHeaders={"messageId": "custom-message-ID"})).outbox_id is None


# Keys.


def test_both_formats_give_the_same_reports() -> None:
    feedback = a_bounce(to("Ada@Example.com"), dialect="notificationType", headers=[])
    published = a_bounce(to("ada@example.com", status="5.1.1"), tags={"mailwright-message": [OURS]})
    assert only(feedback).key == only(published).key
    delivered = {"recipients": ["ada@example.com"], "timestamp": "2026-11-01T10:00:05Z"}
    one = an_event("Delivery", "delivery", {**delivered, "remoteMtaIp": "192.0.2.1"}, dialect="notificationType")
    assert only(one).key == only(an_event("Delivery", "delivery", delivered)).key


def test_different_reports_have_different_keys() -> None:
    at, later = "2026-11-01T10:00:00Z", "2026-11-01T10:00:01Z"
    texts = [
        a_bounce(to("ada@example.com"), to("bob@example.com")),
        an_event("Delivery", "delivery", {"recipients": ["ada@example.com", "bob@example.com"]}),
        an_event("Delivery", "delivery", {"recipients": ["ada@example.com"]}, messageId="0100-2"),
        an_event("Send", "send", {}),
        an_event("Reject", "reject", {"reason": "Bad content"}),
        an_event("Rendering Failure", "failure", {}),
        an_event("Open", "open", {"timestamp": at}),
        an_event("Open", "open", {"timestamp": later}),
        an_event("Click", "click", {"timestamp": at, "link": "https://a.example/1?x=1"}),
        an_event("Click", "click", {"timestamp": at, "link": "https://a.example/1?x=2"}),
        an_event("DeliveryDelay", "deliveryDelay", {"timestamp": at, "delayedRecipients": [to("ada@example.com")]}),
        an_event("DeliveryDelay", "deliveryDelay", {"timestamp": later, "delayedRecipients": [to("ada@example.com")]}),
    ]
    keys = [report.key for text in texts for report in ses.parse_event(text, NOW).reports]
    assert len(set(keys)) == len(keys) == 14


# Times.


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2018-10-08T14:05:45.123Z", "2018-10-08T14:05:45.123Z"),
        ("2018-10-08T14:05:45 +0000", "2018-10-08T14:05:45.000Z"),
        ("2018-10-08T16:05:45+02:00", "2018-10-08T14:05:45.000Z"),
        ("2018-10-08T14:05:45", "2018-10-08T14:05:45.000Z"),
        ("Tue, 1 Nov", isoformat(NOW)),
        ("2999-01-01T00:00:00Z", isoformat(NOW)),
        ("", isoformat(NOW)),
        (7.5, "1970-01-01T00:00:07.500Z"),
        (True, isoformat(NOW)),
        ([], isoformat(NOW)),
    ],
)
def test_ses_time_formats_are_parsed(written: Any, read: str) -> None:
    content = {"recipients": ["ada@example.com"], "timestamp": written}
    assert isoformat(only(an_event("Delivery", "delivery", content)).at) == read


# Invalid input.


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "7",
        "{}",
        '{"eventType": 7}',
        '{"eventType": "Bounce"}',
        '{"eventType": "Bounce", "mail": [], "bounce": {}}',
        '{"eventType": "Bounce", "mail": {}, "bounce": {}}',
        '{"eventType": "Bounce", "mail": {"messageId": 7}, "bounce": {}}',
        '{"eventType": "Bounce", "mail": {"messageId": "m"}, "bounce": {"bounceType": "Permanent"}}',
        a_bounce({"emailAddress": 7}),  # type: ignore[dict-item]
        a_bounce("ada@example.com"),  # type: ignore[arg-type]
        an_event("Delivery", "delivery", {"recipients": "ada@example.com"}),
        an_event("Delivery", "delivery", {"recipients": [7]}),
        an_event("Complaint", "complaint", {"complainedRecipients": {}}),
        an_event("Send", "send", None),
    ],
)
def test_field_of_wrong_type_is_rejected(text: str) -> None:
    with pytest.raises(MalformedEvent):
        ses.parse_event(text, NOW)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)


@given(
    kind=st.sampled_from([*ses.EVENT_PARSERS]),
    message=st.dictionaries(st.sampled_from(["tags", "headers"]), JSON),
    part=JSON,
)
def test_random_json_is_only_ever_rejected(kind: str, message: dict[str, Any], part: Any) -> None:
    try:
        parsed = ses.parse_event(an_event(kind, ses.EVENT_PARSERS[kind][0], part, **message), NOW)
    except MalformedEvent:
        return
    assert all(isinstance(each, Report) for each in parsed.reports)
