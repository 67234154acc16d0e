"""Deferrals: temporary rejections and outages are retried by a long schedule until the message's lifetime ends."""

from typing import Any

import pytest

from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Instant
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.lifetimes import Lifetimes, parse_lifetimes
from mailwright.domain.message import Admitted, Claimed, Settlement
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult
from mailwright.domain.retry import DEFERRALS
from mailwright.domain.states import Status
from mailwright.pipeline.conclude import ReadyMessage, conclude
from mailwright.providers.sendgrid.responses import RESPONSE_RULES
from mailwright.providers.smtp.phases import SmtpPhase
from mailwright.providers.smtp.replies import SmtpReply
from mailwright.providers.smtp.responses import NOT_CONNECTED, interpret_rejection
from mailwright.sources.api.messages import payload
from mailwright.sources.api.requests import parse_send
from mailwright.sources.api.validation import RequestInvalid

NOW: Instant = 1_800_000_000_000
GREYLISTED = interpret_rejection(SmtpPhase.RCPT, SmtpReply(451, [b"4.7.1 greylisted, try again later"]))
REFUSED_CONNECTION = NOT_CONNECTED.result("connection refused")
SENDGRID_DOWN = next(rule.meaning for rule in RESPONSE_RULES if rule.meaning.code == "SENDGRID_SERVER_ERROR")


def a_claim(**changes: Any) -> Claimed:
    fields: dict[str, Any] = {
        "message_key": 1,
        "claim_token": 1,
        "tenant_id": 1,
        "lane": 1,
        "attempts": 0,
        "claims": 1,
        "resends": 0,
        "tenant_name": "default",
        "created_at": NOW - HOUR,
        "is_in_outbox": True,
        "outbox_id": "0192",
        "source": "api",
        "request_id": "r",
        "to_email": "reader@example.com",
        "payload": {},
        "template_key": None,
        "retry_policy": "standard",
        "is_bulk": False,
        "expires_at": None,
        "recipient_id": None,
        "external_id": None,
        "contact_email": None,
        "is_contact_deleted": False,
        "suppressed_because": None,
        "leased_until": NOW + MINUTE,
        "received_at": NOW,
    }
    return Claimed(**{**fields, **changes})


def settle(claimed: Claimed, result: SendResult, now: Instant = NOW, probe_at: Instant | None = None) -> Settlement:
    outgoing = OutgoingMessage(claimed.outbox_id, "sender@example.com", (claimed.to_email,), b"")
    ready = ReadyMessage(claimed, Admitted(claimed), outgoing, now, attempted_at=now)
    outcome = conclude(ready, result, now, deferred_until=now + 10 * SECOND, doubt_until=now, probe_at=probe_at)
    assert isinstance(outcome, Settlement)
    return outcome


def retry_all(claimed: Claimed, result: SendResult) -> tuple[list[Instant], Settlement]:
    """Return the times of all retries and the final outcome of a message that always gets the same response."""
    now, times = NOW, []
    while (outcome := settle(claimed, result, now)).status is Status.RETRY_SCHEDULED:
        assert (outcome.completes_attempt, outcome.is_excused) == (True, True)
        now = outcome.due_at
        times.append(now - NOW)
        since = claimed.deferred_since or outcome.deferred_at
        claimed = claimed._replace(
            attempts=claimed.attempts + 1,
            excused_attempts=claimed.excused_attempts + 1,
            deferrals=claimed.deferrals + 1,
            deferred_since=since,
            retry_until=outcome.retry_until,
        )
    return times, outcome


@pytest.mark.promise("deferrals-are-not-failures")
def test_greylisted_message_is_retried_for_a_day() -> None:
    times, outcome = retry_all(a_claim(), GREYLISTED)
    gaps = [later - earlier for earlier, later in zip([0, *times], times, strict=False)]
    expected = [SECOND, 5 * SECOND, 30 * SECOND, 2 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE]
    for gap, base in zip(gaps, [*expected, *[HOUR] * 5], strict=False):
        assert 0.75 * base <= gap <= 1.25 * base
    assert times[-1] == DAY
    assert (outcome.error_code, outcome.is_dead_letter) == ("LIFETIME_EXCEEDED", True)
    assert "greylisted" in (outcome.error_reason or "")


@pytest.mark.promise("deferrals-are-not-failures")
@pytest.mark.parametrize(
    ("claim", "lifetime"),
    [
        ({}, 24 * HOUR),
        ({"is_bulk": True}, 72 * HOUR),
        ({"payload": {"lifetimeMinutes": 30}, "is_bulk": True}, 30 * MINUTE),
    ],
    ids=["transactional", "bulk", "own"],
)
def test_lifetime_ends_with_a_dead_letter(claim: dict[str, Any], lifetime: Instant) -> None:
    times, outcome = retry_all(a_claim(**claim), GREYLISTED)
    assert times[-1] == lifetime
    assert outcome.is_dead_letter


@pytest.mark.promise("deferrals-are-not-failures")
def test_refused_connection_is_retried_within_thirty_seconds() -> None:
    claimed = a_claim(deferrals=20, deferred_since=NOW - HOUR, retry_until=NOW + HOUR)
    outcome = settle(claimed, REFUSED_CONNECTION)
    assert (outcome.status, outcome.completes_attempt) == (Status.RETRY_SCHEDULED, False)
    assert outcome.due_at - NOW == 30 * SECOND
    assert outcome.defer_reason == "provider_unavailable"


def test_long_outage_records_one_event_per_attempt() -> None:
    deferred = {"deferred_since": NOW - HOUR, "retry_until": NOW + HOUR}
    events = [len(settle(a_claim(deferrals=number, **deferred), REFUSED_CONNECTION).events) for number in (19, 20)]
    assert events == [4, 1]


@pytest.mark.promise("deferrals-are-not-failures")
def test_message_of_an_open_circuit_is_due_at_its_probe() -> None:
    assert settle(a_claim(), REFUSED_CONNECTION, probe_at=NOW + 12 * SECOND).due_at == NOW + 12 * SECOND


@pytest.mark.promise("deferrals-are-not-failures")
@pytest.mark.parametrize("phase", [SmtpPhase.MAIL, SmtpPhase.RCPT, SmtpPhase.DATA, SmtpPhase.DOT])
@pytest.mark.parametrize("code", [421, 450, 451, 452, 454])
def test_every_temporary_reply_is_a_deferral(phase: SmtpPhase, code: int) -> None:
    assert interpret_rejection(phase, SmtpReply(code, [b"try again later"])).is_deferral


def test_errors_of_a_working_provider_use_up_attempts() -> None:
    unknown = interpret_rejection(SmtpPhase.RCPT, SmtpReply(700, [b"?"]))
    outcomes = [settle(a_claim(attempts=attempts), unknown) for attempts in range(5)]
    assert [outcome.completes_attempt for outcome in outcomes] == [True] * 5
    assert [outcome.is_dead_letter for outcome in outcomes] == [False] * 4 + [True]


def test_article_through_sendgrid_keeps_its_four_attempts() -> None:
    down = SENDGRID_DOWN.result("down")
    article = a_claim(source="article", retry_policy="articles", is_bulk=True)
    outcomes = [settle(article._replace(attempts=attempts), down) for attempts in range(4)]
    assert [outcome.error_code for outcome in outcomes] == ["SENDGRID_SERVER_ERROR"] * 3 + ["MAX_ATTEMPTS_EXCEEDED"]
    assert settle(article, GREYLISTED).is_excused


@pytest.mark.promise("deferrals-are-not-failures")
def test_excused_attempts_leave_the_maximum_to_other_errors() -> None:
    unknown = interpret_rejection(SmtpPhase.RCPT, SmtpReply(700, [b"?"]))
    claims = [a_claim(attempts=10 + errors, excused_attempts=10) for errors in range(5)]
    assert [settle(claimed, unknown).is_dead_letter for claimed in claims] == [False] * 4 + [True]


def test_deferral_schedule_is_the_fast_attempts_and_then_hourly() -> None:
    assert DEFERRALS.delays[-4:] == (10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR)


def test_lifetimes_are_read_from_one_setting() -> None:
    lifetimes = parse_lifetimes("transactional=12h, bulk=2d, notification=30m")
    assert lifetimes == Lifetimes(12 * HOUR, 2 * DAY, {"notification": 30 * MINUTE})
    assert lifetimes.of(a_claim(source="notification", is_bulk=True)) == 30 * MINUTE


def test_invalid_lifetimes_are_reported_together() -> None:
    with pytest.raises(ConfigurationInvalid) as error:
        parse_lifetimes("bulk=72, post=1h, bulk=400d")
    assert len(error.value.problems) == 3


def test_api_accepts_a_lifetime_per_message() -> None:
    body = {"to": "reader@example.com", "subject": "Code", "text": "1234"}
    assert payload(parse_send({**body, "lifetimeMinutes": 30}))["lifetimeMinutes"] == 30
    with pytest.raises(RequestInvalid):
        parse_send({**body, "lifetimeMinutes": 0})
