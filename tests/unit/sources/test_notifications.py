"""Notifications without a database: preferences, jobs and event kinds."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.domain.clock import MINUTE, SECOND, to_instant
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.sources.notifications import event_kinds, jobs, preferences, times
from mailwright.sources.notifications.jobs import NotificationRow, SectionDetails
from mailwright.sources.notifications.preferences import (
    DeliveryWindow,
    InvalidPreferences,
    NotWanted,
    PreferenceFacts,
    SubscriberPreferences,
    WaitDecision,
)

NOON = to_instant(datetime(2027, 1, 15, 12, tzinfo=UTC))


def facts(now: int = NOON, **changes: Any) -> PreferenceFacts:
    return PreferenceFacts(now, frozenset({"open"}), **changes)


@pytest.mark.promise("explain-campaign")
@pytest.mark.parametrize(
    ("start", "end", "opens"),
    [
        (9 * 60, 18 * 60, None),
        (13 * 60, 18 * 60, "2027-01-15T13:00:00.000Z"),
        (8 * 60, 12 * 60, "2027-01-16T08:00:00.000Z"),  # the end is exclusive
        (22 * 60, 6 * 60, "2027-01-15T22:00:00.000Z"),  # crosses midnight
        (22 * 60, 13 * 60, None),
        (0, 1440, None),
        (600, 600, None),
    ],
)
def test_delivery_window_may_cross_midnight(start: int, end: int, opens: str | None) -> None:
    wanted = preferences.parse_preferences({"deliveryWindow": {"startMinutes": start, "endMinutes": end}}, "UTC")
    assert isinstance(wanted, SubscriberPreferences)
    wait = preferences.check_preferences(wanted, facts())
    assert opens == (times.format_time(wait.until) if isinstance(wait, WaitDecision) and wait.until else None)


@pytest.mark.promise("explain-campaign")
@given(
    st.integers(0, 1439),
    st.integers(0, 1439),
    st.integers(0, 3 * 1440),
    st.sampled_from(["UTC", "Europe/Lisbon", "Asia/Kolkata"]),
)
def test_window_is_open_when_the_wait_ends(start: int, end: int, later: int, zone: str) -> None:
    wanted = SubscriberPreferences(window=DeliveryWindow(start, end), zone=zone)
    wait = preferences.check_preferences(wanted, facts(NOON + later * MINUTE))
    if wait is not None:
        assert isinstance(wait, WaitDecision)
        assert wait.until is not None
        assert NOON + later * MINUTE < wait.until <= NOON + (later + 1440) * MINUTE
        assert preferences.check_preferences(wanted, facts(wait.until)) is None


@pytest.mark.promise("explain-campaign")
def test_window_uses_subscriber_time_zone() -> None:
    given_ = {"deliveryWindow": {"startMinutes": 8 * 60, "endMinutes": 9 * 60}, "timezone": "America/New_York"}
    wanted = preferences.parse_preferences(given_, "UTC")
    assert isinstance(wanted, SubscriberPreferences)
    wait = preferences.check_preferences(wanted, facts())
    assert isinstance(wait, WaitDecision)
    assert wait.until == NOON + 60 * MINUTE


def test_messages_in_progress_count_toward_maximum() -> None:
    wanted = SubscriberPreferences(max_notifications=2)
    assert preferences.check_preferences(wanted, facts(sent=1)) is None
    assert isinstance(preferences.check_preferences(wanted, facts(sent=2)), NotWanted)
    assert isinstance(preferences.check_preferences(wanted, facts(sent=1, in_progress=1)), WaitDecision)


@pytest.mark.parametrize(
    ("given_", "path"),
    [
        ([], "/subscription/preferences"),
        ({"notifyOn": "open"}, "/subscription/preferences/notifyOn"),
        ({"maxNotifications": "3"}, "/subscription/preferences/maxNotifications"),
        ({"snoozeUntil": "soon"}, "/subscription/preferences/snoozeUntil"),
        ({"deliveryWindow": {"startMinutes": -1}}, "/subscription/preferences/deliveryWindow/startMinutes"),
        ({"timezone": "Nowhere/At_all"}, "/subscription/preferences/timezone"),
    ],
)
def test_invalid_preferences_name_the_field(given_: Any, path: str) -> None:
    parsed = preferences.parse_preferences(given_, "UTC")
    assert isinstance(parsed, InvalidPreferences)
    assert parsed.path == path


# Jobs.


def a_row(**changes: Any) -> NotificationRow:
    event = {
        "open_event_id": 2,
        "section_id": 7,
        "term_id": 92026,
        "campus_code": "NB",
        "index_number": "10001",
        "status_before": "Closed",
        "status_after": "Open",
        "event_at": "2027-01-15 12:00:00",
        "trace_id": "trace-1",
    }
    subscription = {
        "subscription_id": 3,
        "contact_type": "email",
        "contact_value": "ada@example.com",
        "status": "active",
        "unsubscribe_token": "t0k3n",
    }
    fields = {
        "notification_id": 1,
        "open_event_id": 2,
        "subscription_id": 3,
        "dedupe_key": "key",
        "status": "pending",
        "attempts": 0,
        "last_attempt_at": None,
        "locked_by": None,
        "locked_at": None,
        "error": None,
        "created_at": "2027-01-15T12:00:00Z",
        "event": event,
        "subscription": subscription,
    }
    return NotificationRow(**{**fields, **changes})


def a_job(payload: Any = None, details: SectionDetails | None = None, **changes: Any) -> dict[str, Any]:
    event_payload = payload if payload is not None else {"courseTitle": "Algebra", "sectionNumber": "02"}
    kind = event_kinds.load_event_kinds(None, 120 * SECOND).by_name["open-seat"]
    base = {"base_url": "https://seats.example", "locale": "en"}
    return jobs.build_job(a_row(**changes), kind, event_payload, None, details or SectionDetails(), **base)


def test_job_matches_the_contract() -> None:
    job = a_job()
    kind = event_kinds.load_event_kinds(None, 120 * SECOND).by_name["open-seat"]
    assert jobs.validate_job(job, kind) is None
    assert (job["version"], job["notificationId"], job["openEventId"], job["subscriptionId"]) == ("1.0", 1, 2, 3)
    assert job["event"]["termId"] == "92026"
    assert job["traceId"] == "trace-1"
    assert (job["template"]["id"], job["template"]["version"]) == ("open-seat", "v1")
    variables = job["template"]["variables"]
    assert set(kind.variables) <= variables.keys()
    assert (variables["courseTitle"], variables["sectionNumber"]) == ("Algebra", "02")
    assert job["event"]["eventAt"] == "2027-01-15T12:00:00.000Z"
    assert job["links"]["unsubscribeUrl"] == "https://seats.example/subscriptions/3/unsubscribe?token=t0k3n"
    assert set(jobs.schema()["required"]) <= job.keys()


def test_template_version_selects_the_stored_template() -> None:
    kinds = [event_kinds.EventKind(name="seat", template="seat", template_version=version) for version in ("v1", "v2")]
    assert [kind.template_id for kind in kinds] == ["seat.v1", "seat.v2"]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"notificationId": 0}, "/notificationId"),
        ({"locale": 7}, "/locale"),
        ({"recipient": {"email": "nobody"}}, "/recipient/email"),
        ({"links": {"manageUrl": "no address"}}, "/links/manageUrl"),
        ({"unheardOf": 1}, "/"),
        ({"version": "1"}, "/version"),
    ],
)
def test_job_is_validated_against_schema(change: dict[str, Any], path: str) -> None:
    kind = event_kinds.load_event_kinds(None, 120 * SECOND).by_name["open-seat"]
    error = jobs.validate_job({**a_job(), **change}, kind)
    assert error is not None
    assert error.path == path


def test_other_major_version_is_rejected() -> None:
    kind = event_kinds.load_event_kinds(None, 120 * SECOND).by_name["open-seat"]
    assert jobs.validate_job({**a_job(), "version": "1.4", "unheardOf": 1}, kind) is None
    error = jobs.validate_job({**a_job(), "version": "2.0"}, kind)
    assert error is not None
    assert error.code == "UNSUPPORTED_VERSION"


def test_meetings_are_summarized_in_one_line() -> None:
    meetings = [
        {"meeting_day": "M", "start_minutes": 540, "end_minutes": 600, "building_code": "TIL", "room_number": "124"},
        {"meeting_day": "Thursday", "start_minutes": 780, "end_minutes": 860, "campus_abbrev": "BUS"},
        {},
    ]
    assert jobs.meeting_summary(meetings) == "M 09:00–10:00 TIL 124, TH 13:00–14:20 BUS"


# Event kinds.


def test_all_errors_of_event_kinds_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "kinds.toml"
    file.write_text('[price]\nmax_attempts = 0\nmanage_url = "{nobody}"\n[stock]\nfallback_locale = "?"\nunheard = 1\n')
    with pytest.raises(ConfigurationInvalid) as rejected:
        event_kinds.load_event_kinds(file, 120 * SECOND)
    problems = "\n".join(rejected.value.problems)
    for name in ("price.max_attempts", "price.manage_url", "stock.fallback_locale", "stock.unheard"):
        assert name in problems


def test_retry_delay_never_exceeds_lock() -> None:
    kind = event_kinds.EventKind(name="slow", template="slow", retry_schedule_ms=(0, 600_000))
    assert [kind.retry_delay(attempts, 120_000) for attempts in (1, 2, 3)] == [0, 120_000, 120_000]
