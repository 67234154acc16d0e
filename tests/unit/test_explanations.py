"""The English of explanations: every state, reason and remedy has a short sentence."""

from itertools import product
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from mailwright.actions.suggestions import commands
from mailwright.domain.actions import Action, ActionKind
from mailwright.domain.campaign import AWAITING_WINNER, CANCELLED, INDEFINITELY, PAUSED, SCHEDULED
from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND
from mailwright.domain.explanation import (
    CampaignExplanation,
    CampaignState,
    ExplanationState,
    LimitScope,
    MessageExplanation,
    ReachedLimit,
    Remedy,
)
from mailwright.domain.permits import QUOTA_EXHAUSTED, DeferReason, split_defer_reason
from mailwright.outbox.explain import LIMIT_COLUMNS
from mailwright.sources.campaigns.deferrals import RETRY_SCHEDULED
from mailwright.sources.campaigns.forecast_values import ForecastAssumption
from mailwright.texts.explanations import (
    assumption_text,
    campaign_text,
    deferral_text,
    limit_name,
    message_text,
)
from mailwright.texts.times import distance, duration, time_text

NOW = 1_800_000_000_000  # 2027-01-15 08:00 UTC
LIMITS = [*LIMIT_COLUMNS, "max_in_flight", DeferReason.DOMAIN_RATE, DeferReason.DOMAIN_CONCURRENCY]
REASONS = [None, *LIMITS, *DeferReason, QUOTA_EXHAUSTED, PAUSED, CANCELLED, SCHEDULED, AWAITING_WINNER]


def a_message(state: ExplanationState, reason: str | None = None, **changes: Any) -> MessageExplanation:
    code, detail = split_defer_reason(reason)
    values = {"until": NOW + HOUR, "occurred_at": NOW, "worker": "w1", "provider": "ses", "campaign": "May"} | changes
    return MessageExplanation(
        computed_at=NOW,
        outbox_id="m1",
        state=state,
        reason=code,
        detail=detail,
        tenant="shop",
        recipient="ada@example.com",
        **values,
    )


def a_campaign(state: CampaignState, reason: str | None = None, **changes: Any) -> CampaignExplanation:
    code, detail = split_defer_reason(reason)
    values = {"until": NOW + HOUR, "recipients": 120, "campaign_ahead": "June"} | changes
    return CampaignExplanation(
        computed_at=NOW, campaign_id="c1", state=state, reason=code, detail=detail, tenant="shop", **values
    )


def assert_is_sentence(text: str | None) -> None:
    assert text
    assert text[0].isupper()
    assert text.endswith(".")
    assert not any(mark in text for mark in ("{", "}", "None", "  ", "..", "`"))


@pytest.mark.parametrize("state", ExplanationState)
def test_every_message_state_and_reason_has_a_sentence(state: ExplanationState) -> None:
    bounces = [None, "hard_bounce", "soft_bounce", "bounce", "complaint"]
    for reason, bounce, is_known in product(REASONS, bounces, (True, False)):
        limit = ReachedLimit(reason, LimitScope.TENANT, "shop") if reason in LIMITS else None
        known = {"error_code": "SMTP_CUT", "error_reason": "Cut."} if is_known else {"occurred_at": None}
        message = a_message(state, reason, limit=limit, bounce=bounce, is_suppressed=is_known, **known)
        assert_is_sentence(message_text(message).sentence)


@pytest.mark.parametrize("state", CampaignState)
def test_every_campaign_state_and_reason_has_a_sentence(state: CampaignState) -> None:
    reasons = [*REASONS, RETRY_SCHEDULED]
    for reason, scope, is_message_deferral in product(reasons, [None, *LimitScope], (True, False)):
        limit = ReachedLimit(reason or "daily_limit", scope, "shop", 500, 500) if scope else None
        campaign = a_campaign(state, reason, limit=limit, is_message_deferral=is_message_deferral, in_doubt=2)
        assert_is_sentence(campaign_text(campaign).sentence)


@pytest.mark.parametrize("remedy", Remedy)
def test_every_remedy_has_a_sentence(remedy: Remedy) -> None:
    message = a_message(ExplanationState.HELD, remedy=remedy, campaign_ahead="June")
    assert_is_sentence(message_text(message).what_would_change)


@pytest.mark.parametrize("scope", LimitScope)
def test_every_limit_names_how_to_change_it(scope: LimitScope) -> None:
    for name in LIMITS:
        limit = ReachedLimit(name, scope, "shop")
        campaign = a_campaign(CampaignState.HELD, name, remedy=Remedy.CHANGE_LIMIT, limit=limit)
        assert_is_sentence(campaign_text(campaign).what_would_change)


@pytest.mark.parametrize("assumption", ForecastAssumption)
def test_every_assumption_has_a_sentence(assumption: ForecastAssumption) -> None:
    assert_is_sentence(assumption_text(assumption))


def test_limit_is_named_with_usage_and_local_time() -> None:
    limit = ReachedLimit("daily_limit", LimitScope.TENANT, "shop", used=500, allowed=500, timezone="Europe/Moscow")
    held = {"limit": limit, "remedy": Remedy.CHANGE_LIMIT, "until": NOW + 13 * HOUR}
    text = campaign_text(a_campaign(CampaignState.HELD, "daily_limit", **held), ZoneInfo("Europe/Moscow"))
    assert text.sentence == (
        "Daily limit of tenant shop reached (500 of 500). "
        "Sending resumes at 00:00 Europe/Moscow on 16 Jan 2027 (in 13 hours). "
        "The limit counts calendar days in the time zone Europe/Moscow. "
        "On the next day, sending begins when the working hours open, or at 09:00 without working hours."
    )
    assert text.what_would_change == "Raise the daily limit of tenant shop."


def test_failures_are_counted_against_all_recipients() -> None:
    text = campaign_text(a_campaign(CampaignState.FAILURES, "failures", failed=3))
    assert text.sentence == "Sent. 3 of 120 recipients failed."


def test_forecast_names_when_sending_resumes_and_finishes() -> None:
    forecast = {"forecast_start": NOW + HOUR, "forecast_end": NOW + 2 * HOUR, "forecast_messages": 50}
    assert campaign_text(a_campaign(CampaignState.PAUSED, **forecast)).then == (
        "Sending resumes at 09:00 UTC (in 60 minutes) and finishes at 10:00 UTC (in 2 hours). 50 messages left."
    )
    endless = {"forecast_start": NOW, "forecast_end": None}
    assert campaign_text(a_campaign(CampaignState.SENDING, **endless)).then == "Sending does not finish within a year."
    assert campaign_text(a_campaign(CampaignState.SENT)).then is None


def test_sent_and_failed_messages_name_time_error_and_bounce() -> None:
    sent = a_message(ExplanationState.SENT, bounce="hard_bounce", is_suppressed=True)
    assert message_text(sent).sentence == (
        "Sent by ses at 08:00 UTC (now). It bounced permanently. No more email is sent to ada@example.com."
    )
    failed = a_message(ExplanationState.FAILED, error_code="SMTP_REFUSED", error_reason="No such user.")
    assert message_text(failed).sentence == "Failed at 08:00 UTC (now). Error SMTP_REFUSED: No such user."


def test_position_in_the_lane_is_counted() -> None:
    def sentence(ahead: int) -> str:
        return message_text(a_message(ExplanationState.IN_LINE, "in_line", ahead=ahead)).sentence

    assert sentence(0) == "Queued: it is the next message of its lane."
    assert sentence(1) == "Queued: 1 message of its lane is due first."
    assert sentence(3) == "Queued: 3 messages of its lane are due first."
    assert sentence(1_001) == "Queued: more than 1,000 messages of its lane are due first."


def test_deferral_in_a_list_has_its_end_if_known() -> None:
    assert deferral_text("rate_per_hour", NOW + HOUR, NOW) == "Hourly limit reached until 09:00 UTC (in 60 minutes)"
    assert deferral_text(SCHEDULED, NOW + DAY, NOW) == "Scheduled for 08:00 UTC on 16 Jan 2027 (in 24 hours)"
    assert deferral_text(PAUSED, INDEFINITELY, NOW) == "Paused"
    assert deferral_text("domain_limit:rate", None, NOW) == "Domain limit reached"
    assert limit_name("rate_per_hour") == "hourly limit"


def test_commands_perform_the_actions_of_an_explanation() -> None:
    failed = a_message(
        ExplanationState.FAILED,
        remedy=Remedy.ACTIVATE_AND_RETRY,
        contact_status="bounced",
        actions=(Action(ActionKind.LIFT_SUPPRESSION, "ada@example.com"),),
    )
    assert commands(failed) == [
        "mailwright contact activate ada@example.com --tenant shop",
        "mailwright message retry m1",
    ]
    limit = ReachedLimit("rate_per_hour", LimitScope.TENANT, "shop")
    held = a_campaign(CampaignState.HELD, remedy=Remedy.CHANGE_LIMIT, limit=limit)
    assert commands(held) == ["mailwright tenant edit shop --rate-per-hour N"]
    ceiling = ReachedLimit("rate_per_hour", LimitScope.INSTALLATION, "shop")
    held = a_campaign(CampaignState.HELD, remedy=Remedy.CHANGE_LIMIT, limit=ceiling)
    assert commands(held) == ["mailwright setting set MAILWRIGHT_RATE_PER_HOUR N"]
    winner = Action(ActionKind.CHOOSE_WINNER, "c1", {"version": "B 2"})
    assert commands(a_campaign(CampaignState.HELD, actions=(winner,))) == ["mailwright campaign winner c1 'B 2'"]


@pytest.mark.parametrize("kind", ActionKind)
def test_every_action_has_a_command(kind: ActionKind) -> None:
    action = Action(kind, "x1", {"as": "sent", "version": "B", "overdue": "send"})
    [command] = commands(a_message(ExplanationState.HELD, actions=(action,)))
    assert command.startswith("mailwright ")
    assert "{" not in command


@pytest.mark.promise("explain-campaign")
@pytest.mark.parametrize(
    ("length", "text"),
    [
        (1, "less than a second"),
        (SECOND, "1 second"),
        (89 * SECOND, "89 seconds"),
        (100 * SECOND, "2 minutes"),
        (90 * MINUTE, "90 minutes"),
        (7 * DAY - SECOND, "7 days"),
        (26_343 * DAY, "72 years"),
    ],
)
def test_duration_uses_the_largest_unit_with_two(length: int, text: str) -> None:
    assert duration(length) == text


def test_times_have_the_date_and_seconds_only_if_needed() -> None:
    assert time_text(NOW + 12 * MINUTE, NOW) == "08:12 UTC (in 12 minutes)"
    assert time_text(NOW + 5 * SECOND, NOW) == "08:00:05 UTC (in 5 seconds)"
    assert time_text(NOW - 2 * DAY, NOW) == "08:00 UTC on 13 Jan 2027 (2 days ago)"
    assert distance(NOW, NOW) == "now"
