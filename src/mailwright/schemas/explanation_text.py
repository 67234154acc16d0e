"""Explanations, deferrals and forecasts in English. No other module writes sentences about them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Final

from mailwright.domain.campaign import (
    AWAITING_WINNER,
    AWAITS_APPROVAL,
    CANCELLED,
    GUARD_RAILS,
    INDEFINITELY,
    NEXT_WAVE,
    PAUSED,
    SCHEDULE_OVERDUE,
    SCHEDULED,
    SENDER_RULES,
    UNDECIDED,
)
from mailwright.domain.clock import Instant
from mailwright.domain.explanation import (
    MAX_POSITION,
    CampaignExplanation,
    CampaignState,
    Explanation,
    ExplanationState,
    LimitScope,
    MessageExplanation,
    ReachedLimit,
    Remedy,
)
from mailwright.domain.guard_rails import GuardAction, GuardFinding, Incident
from mailwright.domain.lifetimes import DELAYED_AFTER
from mailwright.domain.permits import (
    PROVIDER_LIMIT,
    PROVIDER_RATE,
    QUOTA_EXHAUSTED,
    THROTTLED_RATE,
    DeferReason,
    split_defer_reason,
)
from mailwright.outbox.sending_hold import HoldReason, SendingHold
from mailwright.policies.pacing import INTERVAL, ONE_AT_A_TIME
from mailwright.schemas.time_text import count_text, time_text
from mailwright.sources.campaigns.deferrals import RETRY_SCHEDULED
from mailwright.sources.campaigns.forecast_values import ASSUMED_RATE, IN_LINE, ONE_AT_A_TIME_RATE, ForecastAssumption


@dataclass(frozen=True, slots=True)
class ExplanationText:
    sentence: str
    what_would_change: str | None
    then: str | None = None  # forecast: when a campaign continues and finishes


def message_text(explanation: MessageExplanation, zone: tzinfo = UTC) -> ExplanationText:
    sentence = _MESSAGE_SENTENCES[explanation.state](_Times(explanation.computed_at, zone), explanation)
    return ExplanationText(sentence, remedy_text(explanation))


def campaign_text(explanation: CampaignExplanation, zone: tzinfo = UTC) -> ExplanationText:
    times = _Times(explanation.computed_at, zone)
    sentence = _CAMPAIGN_SENTENCES[explanation.state](times, explanation) + _guard_note(times, explanation)
    if explanation.lost_messages:
        sentence += (
            f" A worker stopped while it held {count_text(explanation.lost_messages, 'message')}; others take over at "
            f"{times.at(explanation.lost_until)}."
        )
    return ExplanationText(sentence, remedy_text(explanation), _forecast_sentence(times, explanation))


def mailout_wait_text(remedy: Remedy) -> ExplanationText:
    """Describe why a mailout waits. The only possible reason is that no worker runs."""
    return ExplanationText("No worker is running, so nothing is sent.", _REMEDIES[remedy])


@dataclass(frozen=True, slots=True)
class _Times:
    """Formats times for a reader in one time zone, relative to now."""

    now: Instant
    zone: tzinfo

    def at(self, instant: Instant | None) -> str:
        """Return the time, or `an unknown time` for data that was never recorded."""
        return "an unknown time" if instant is None else time_text(instant, self.now, self.zone)


# Limits.

LIMIT_NAMES: Final[Mapping[str, str]] = {
    "rate_per_second": "limit per second",
    "rate_per_hour": "hourly limit",
    "daily_limit": "daily limit",
    "outside_hours": "working hours",
    "warmup": "warm-up limit",
    INTERVAL: "interval between messages",
    ONE_AT_A_TIME: "one message at a time",
    "max_in_flight": "limit of messages in flight",
    "domain_limit": "domain limit",
    DeferReason.FREQUENCY_CAP: "frequency cap",
    DeferReason.SNOOZED: "pause by the recipient",
    DeferReason.SPREAD: "overdue emails spread over time",
    QUOTA_EXHAUSTED: "provider quota",
    PROVIDER_RATE: "provider send rate",
    DeferReason.PROVIDER_THROTTLED: "throttling by the provider",
    IN_LINE: "other campaigns first",
    PAUSED: "paused",
    SCHEDULED: "scheduled",
    SCHEDULE_OVERDUE: "overdue schedule",
    AWAITING_WINNER: "A/B test",
    UNDECIDED: "undecided A/B test",
    SENDER_RULES: "sender rules",
    GUARD_RAILS: "guard rails",
    NEXT_WAVE: "wait for the next wave",
    AWAITS_APPROVAL: "approval by a second person",
    HoldReason.RESTORED: "hold after a restored database",
    HoldReason.REPLACED: "hold after a replaced database",
    HoldReason.REPORTED: "hold after a report of unknown messages",
}


def limit_name(reason: str) -> str:
    """Return the name of the rule, for a legend or a heading: `hourly limit`."""
    return LIMIT_NAMES.get(reason, reason.replace("_", " "))


_LIMIT_REACHED: Final[Mapping[str, str]] = {
    "rate_per_second": "Limit per second{of} reached{usage}.",
    "rate_per_hour": "Hourly limit{of} reached{usage}.",
    "daily_limit": "Daily limit{of} reached{usage}.",
    "outside_hours": "Outside working hours{of}.",
    "warmup": "Warm-up limit{of} reached{usage}.",
    INTERVAL: "Waiting for the interval between messages{of}.",
    ONE_AT_A_TIME: "Messages{of} are sent one at a time.",
    "max_in_flight": "Limit of messages in flight{of} reached{usage}.",
    DeferReason.DOMAIN_RATE: "Send rate limit{of} reached.",
    DeferReason.DOMAIN_CONCURRENCY: "Limit of simultaneous messages{of} reached.",
    QUOTA_EXHAUSTED: "Provider quota used up.",
    PROVIDER_RATE: "Provider send rate reached.",
    THROTTLED_RATE: "Slowed down by the provider{usage}.",
}
_CHANGE_LIMIT: Final[Mapping[str, str]] = {
    "outside_hours": "Change the working hours{of}.",
    "warmup": "End the warm-up{of}.",
    INTERVAL: "Shorten the interval between messages{of}.",
    ONE_AT_A_TIME: "Allow several messages{of} at a time.",
}


def _limit_sentence(limit: ReachedLimit, campaign: str | None = None) -> str:
    text = _LIMIT_REACHED.get(limit.name, f"Deferred by {limit_name(limit.name)}{{of}}.")
    return text.format(of=_limit_owner(limit, campaign), usage=_limit_usage(limit))


def _limit_owner(limit: ReachedLimit, campaign: str | None = None) -> str:
    match limit.scope:
        case LimitScope.INSTALLATION:
            return " of the installation"
        case LimitScope.TENANT:
            return f" of tenant {limit.owner}"
        case LimitScope.CAMPAIGN:
            return " of the campaign"
        case LimitScope.TENANT_OR_CAMPAIGN:
            return f" of campaign {campaign} or tenant {limit.owner}"
        case LimitScope.DOMAIN:
            return f" for {limit.owner}"
        case LimitScope.PROVIDER:
            return f" of provider {limit.owner}" if limit.owner else ""


def _limit_usage(limit: ReachedLimit) -> str:
    if limit.allowed is None:
        return ""
    if limit.name == THROTTLED_RATE:
        return f" to about {count_text(limit.allowed, 'message')} per second"
    if limit.used is None:
        return f" ({limit.allowed:,})"
    reserved = f", {limit.reserved:,} reserved for transactional email" if limit.reserved else ""
    return f" ({limit.used:,} of {limit.allowed:,}{reserved})"


# Messages.


def _sent(times: _Times, message: MessageExplanation) -> str:
    provider = f" by {message.provider}" if message.provider else ""
    when = f" at {times.at(message.occurred_at)}" if message.occurred_at else ""
    return f"Sent{provider}{when}.{_bounce(message)}"


_BOUNCES: Final[Mapping[str, str]] = {
    "hard_bounce": "It bounced permanently.",
    "soft_bounce": "It bounced temporarily.",
    "bounce": "It bounced for a reason that does not affect the address.",
    "complaint": "The recipient reported it as spam.",
}


def _bounce(message: MessageExplanation) -> str:
    if message.bounce is None:
        return ""
    blocked = f" No more email is sent to {message.recipient}." if message.is_suppressed else ""
    return f" {_BOUNCES[message.bounce]}{blocked}"


def _failed(times: _Times, message: MessageExplanation) -> str:
    when = f" at {times.at(message.occurred_at)}" if message.occurred_at else ""
    return f"Failed{when}. {_error(message)}{_bounce(message)}"


def _error(message: MessageExplanation) -> str:
    if message.error_code is None:
        return "The error is unknown."
    reason = f": {message.error_reason.rstrip('.')}" if message.error_reason else ""
    return f"Error {message.error_code}{reason}."


def _in_doubt(times: _Times, message: MessageExplanation) -> str:
    next_step = "sent again with the same Message-ID" if message.will_resend else "closed as unknown"
    return (
        f"Unconfirmed: the provider may or may not have it. {_error(message)} "
        f"If the provider does not report on it, it will be {next_step} at {times.at(message.until)}."
    )


def _claimed(times: _Times, message: MessageExplanation) -> str:
    return (
        f"Claimed by worker {message.worker}, which sends it next. "
        f"If that worker stops, another one takes over at {times.at(message.until)}."
    )


def _scheduled(times: _Times, message: MessageExplanation) -> str:
    if message.reason == SCHEDULED:
        return f"Campaign {message.campaign} is scheduled for {times.at(message.until)}."
    return f"Scheduled for {times.at(message.until)}."


def _retrying(times: _Times, message: MessageExplanation) -> str:
    if message.retry_until is not None:
        deferrals = "once" if message.deferrals == 1 else f"{message.deferrals} times"
        next_try = f"The next attempt is at {times.at(message.until)}."
        return f"{_delay(times, message)}The receiving server deferred it {deferrals}. {_error(message)} {next_try}" + (
            f" Mailwright gives up at {times.at(message.retry_until)}."
        )
    attempts = f"Attempt {message.attempts} of {message.max_attempts} failed."
    return f"{attempts} {_error(message)} The next attempt is at {times.at(message.until)}."


def _delay(times: _Times, message: MessageExplanation) -> str:
    """Return a warning if the message has been deferred for hours, otherwise an empty string."""
    since = message.deferred_since
    return "" if since is None or times.now - since < DELAYED_AFTER else f"Delayed since {times.at(since)}. "


def _provider_unavailable(times: _Times, message: MessageExplanation) -> str:
    if message.reason == DeferReason.PROVIDER_UNAVAILABLE:  # no worker uses the provider at present
        error = f" because of an error: {message.provider_error.rstrip('.')}" if message.provider_error else ""
        return f"Provider {message.provider} is not used until {times.at(message.until)}{error}."
    return _provider_deferral(times, message, "does not accept email")


def _provider_deferral(times: _Times, message: MessageExplanation, problem: str) -> str:
    provider = f"Provider {message.provider}" if message.provider else "The provider"
    next_try = f"Mailwright tries again at {times.at(message.until)}. The deferral does not count as an attempt."
    error = f" {_error(message)}" if message.error_code else ""
    return f"{_delay(times, message)}{provider} {problem}.{error} {next_try}"


def _provider_missing(times: _Times, message: MessageExplanation) -> str:
    if message.remedy is Remedy.FORMER_SERVER:
        return f"A former server of {message.provider} may already have it, so no other server may send it."
    if message.route_to is not None:
        return (
            f"Provider {message.provider} may already have it, so no other provider may send it, and the route of "
            f"tenant {message.tenant} names another one. Mailwright checks this again at {times.at(message.until)}."
        )
    return (
        f"Provider {message.provider} may already have it, so no other provider may send it, and no worker uses "
        f"{message.provider} any more. Mailwright checks this again at {times.at(message.until)}."
    )


def _limited(times: _Times, message: MessageExplanation) -> str:
    limit = _limit_sentence(message.limit, message.campaign) if message.limit else "Deferred."
    return f"{limit} {_resumes(times, message)}"


def _resumes(times: _Times, explanation: Explanation, goes_on: str = "Sending resumes") -> str:
    """Say when sending resumes and, for a daily limit, why it does not resume at midnight."""
    why = " A new day begins when the working hours open, or at 09:00 without working hours."
    is_daily = explanation.limit is not None and explanation.limit.name in ("daily_limit", "warmup")
    return f"{goes_on} at {times.at(explanation.until)}.{why if is_daily else ''}"


_HOLD_CAUSES: Final[Mapping[str, str]] = {
    HoldReason.RESTORED: "the database was restored from a backup, so messages sent after the backup are unknown",
    HoldReason.REPLACED: "the database is not the one that was used here before, so earlier messages are unknown",
    HoldReason.REPORTED: "a provider reported a message that is not in this database, which may therefore be a backup",
}


def _hold_sentence(times: _Times, reason: str, since: Instant | None) -> str:
    """Say why nothing at all is sent, and since when."""
    return f"All sending has been on hold since {times.at(since)}: {_HOLD_CAUSES[reason]}."


def hold_text(hold: SendingHold, now: Instant, zone: tzinfo = UTC) -> str:
    """Return the warning for a caller whose message is accepted while all sending is on hold."""
    accepted = "New messages are accepted and wait until sending resumes."
    return (
        f"{_hold_sentence(_Times(now, zone), hold.reason, hold.since)} {accepted} {_REMEDIES[Remedy.RELEASE_SENDING]}"
    )


def _held(times: _Times, message: MessageExplanation) -> str:  # noqa: PLR0911, PLR0912 - a table
    if message.held_since is not None:
        return f"{_hold_sentence(times, message.reason or '', message.held_since)} This message waits."
    match message.reason:
        case "paused" if message.sequence is not None:
            return f"Sequence {message.sequence} is paused."
        case "cancelled" if message.sequence is not None:
            return f"Sequence {message.sequence} was archived. A worker will cancel this message shortly."
        case DeferReason.SPREAD:
            spread = f"The overdue emails of sequence {message.sequence} are spread over some hours."
            return f"{spread} This one can be sent at {times.at(message.until)}."
        case "paused":
            return f"Campaign {message.campaign} is paused."
        case "guard_rails":
            return f"Campaign {message.campaign} was stopped by its guard rails: too many bounces or complaints."
        case "next_wave":
            opens = f"The next wave opens at {times.at(message.until)}, and this message is tried again then."
            return f"Campaign {message.campaign} waits between two waves. {opens}"
        case "cancelled":
            return f"Campaign {message.campaign} was cancelled. A worker will cancel this message shortly."
        case "waits_for_winner":
            chosen = f"The winner will be chosen at {times.at(message.until)}."
            return f"Campaign {message.campaign} is running an A/B test. {chosen}"
        case "ab_test_undecided":
            return f"The A/B test of campaign {message.campaign} is undecided. {_UNDECIDED_NEXT}"
        case "awaits_approval":
            return f"Campaign {message.campaign} waits until a second person approves it."
        case "sender_rules":
            again = f"Mailwright checks them again at {times.at(message.until)}."
            return f"Campaign {message.campaign} does not meet the rules of the large mailbox providers. {again}"
        case DeferReason.FREQUENCY_CAP if message.limit is not None:
            who, limit = message.contact_name or f"Recipient {message.recipient}", message.limit
            received = f"{who} has received {limit.used} of {limit.allowed} bulk emails"
            since = f" since {times.at(message.occurred_at)}" if message.occurred_at else ""
            return f"{received}{since}. This email can be sent from {times.at(message.until)}."
        case DeferReason.SNOOZED:
            who = message.contact_name or f"Recipient {message.recipient}"
            return f"{who} has paused bulk email until {times.at(message.until)}. This email can be sent then."
        case "outside_hours" if message.limit is None:
            return f"Outside working hours in the recipient's time zone. Sending resumes at {times.at(message.until)}."
        case _:
            return _limited(times, message)


def _queued(times: _Times, message: MessageExplanation) -> str:
    if message.reason == DeferReason.RESEND_TURN:
        again = f"The next check is at {times.at(message.until)}."
        return f"Queued to be sent again: unconfirmed messages are sent again one at a time. {again}"
    if message.reason == DeferReason.ONE_AT_A_TIME:
        again = f"The next check is at {times.at(message.until)}."
        return f"Queued: messages are sent one at a time, and another one is being sent. {again}"
    if message.ahead > MAX_POSITION:
        position = f"more than {MAX_POSITION:,} messages of its lane are due first"
    elif message.ahead:
        position = f"{count_text(message.ahead, 'message')} of its lane {_is_are(message.ahead)} due first"
    else:
        position = "it is the next message of its lane"
    ahead = f" Campaign {message.campaign_ahead} is sent first." if message.campaign_ahead else ""
    return f"Queued: {position}.{ahead}"


def _suspect(_: _Times, message: MessageExplanation) -> str:
    claims = "once" if message.claims == 1 else f"{message.claims} times"
    return f"Claimed {claims} without a result. The next worker will send it separately from other messages."


_MessageSentence = Callable[[_Times, MessageExplanation], str]
_MESSAGE_SENTENCES: Final[Mapping[ExplanationState, _MessageSentence]] = {
    ExplanationState.SENT: _sent,
    ExplanationState.FAILED: _failed,
    ExplanationState.CANCELLED: lambda times, message: "Cancelled before it was sent.",
    ExplanationState.CLOSED_UNKNOWN: lambda times, message: (
        "Closed as unknown: the provider never confirmed whether it has the message."
    ),
    ExplanationState.IN_DOUBT: _in_doubt,
    ExplanationState.SENDING: lambda times, message: (
        f"Being sent: worker {message.worker} handed it to the provider at {times.at(message.occurred_at)}."
    ),
    ExplanationState.WORKER_LOST: lambda times, message: (
        f"Worker {message.worker} stopped while it was sending this message. A worker will mark it as unconfirmed."
    ),
    ExplanationState.CLAIMED: _claimed,
    ExplanationState.SCHEDULED: _scheduled,
    ExplanationState.RETRYING: _retrying,
    ExplanationState.PROVIDER_UNAVAILABLE: _provider_unavailable,
    ExplanationState.PROVIDER_MISSING: _provider_missing,
    ExplanationState.THROTTLED: lambda times, message: _provider_deferral(
        times, message, "asked Mailwright to send more slowly"
    ),
    ExplanationState.DOMAIN_LIMIT: _limited,
    ExplanationState.TENANT_BUSY: _limited,
    ExplanationState.HELD: _held,
    ExplanationState.EXPIRED: lambda times, message: (
        f"Expired at {times.at(message.occurred_at)}. A worker will mark it as failed."
    ),
    ExplanationState.NO_WORKER: lambda times, message: (
        f"Due, but no worker with the provider {message.provider} is running."
        if message.provider
        else "Due, but no worker is running."
    ),
    ExplanationState.SUSPECT: _suspect,
    ExplanationState.IN_LINE: _queued,
}


# Campaigns.


def _cancelled_campaign(_: _Times, campaign: CampaignExplanation) -> str:
    in_doubt = f" {_unconfirmed(campaign)}" if campaign.in_doubt else ""
    return f"Cancelled. The remaining messages will not be sent.{in_doubt}"


def _unconfirmed(campaign: CampaignExplanation) -> str:
    messages = count_text(campaign.recipients, "message")
    return f"{campaign.in_doubt:,} of {messages} {_is_are(campaign.in_doubt)} unconfirmed."


_UNDECIDED_NEXT: Final = "All other recipients wait until someone chooses the variant that they receive."


def _held_campaign(times: _Times, campaign: CampaignExplanation) -> str:  # noqa: PLR0911 - a table
    if campaign.is_message_deferral or campaign.held_since is not None:
        return _message_deferral(times, campaign)
    if campaign.reason == AWAITS_APPROVAL:
        return f"Held until a second person approves it. {_approval(campaign)}".rstrip()
    if campaign.reason == UNDECIDED:
        return f"A/B test undecided: the results do not decide it. {_UNDECIDED_NEXT}"
    resumes = _resumes(times, campaign, _start_or_resume(campaign))
    if campaign.reason in (NEXT_WAVE, GUARD_RAILS):
        return _between_waves(times, campaign)
    if campaign.reason == AWAITING_WINNER:
        return (
            f"A/B test running. It ends at {times.at(campaign.until)}. If the results are clear then, the winner is "
            "sent to all other recipients."
        )
    if campaign.reason == SENDER_RULES:
        return (
            "Held: the audience has grown, and email to this many recipients must meet the rules of the large mailbox "
            f"providers. Mailwright checks them again at {times.at(campaign.until)}."
        )
    if campaign.limit is None:
        return f"Deferred by a rule that no longer applies ({limit_name(campaign.reason or '')}). {resumes}"
    return f"{_limit_sentence(campaign.limit)} {resumes}"


def _approval(campaign: CampaignExplanation) -> str:
    """Say who must do what, and what was changed since the request."""
    changed = f" Changes: {'; '.join(campaign.changes)}." if campaign.changes else ""
    return f"{campaign.approval or ''}{changed}"


def _draft(times: _Times, campaign: CampaignExplanation) -> str:
    if campaign.reason == AWAITS_APPROVAL:
        return f"Draft. It cannot start until a second person approves it. {_approval(campaign)}"
    if campaign.repeats_at is not None:
        failure = f" At its last time, nothing was sent. {campaign.repeat_failure}" if campaign.repeat_failure else ""
        return f"Draft that repeats. The next campaign is made from it at {times.at(campaign.repeats_at)}.{failure}"
    if campaign.repeat_failure is not None:
        return f"Draft of a recurring campaign. It was not sent. {campaign.repeat_failure}"
    if campaign.scheduled_at is None:
        return "Draft. It has not been started."
    return f"Draft. It has not been started. Its send time is {times.at(campaign.scheduled_at)}."


def _between_waves(times: _Times, campaign: CampaignExplanation) -> str:
    sent = f"Wave {campaign.wave} of {campaign.waves} is sent."
    if campaign.reason == NEXT_WAVE:
        opens = f"The next wave opens at {times.at(campaign.until)}"
        return f"{sent} {opens} if its guard rails find nothing until then."
    found = campaign.guard.finding if campaign.guard is not None else None
    why = f": {guard_finding_text(found)}" if found is not None else ""
    return f"{sent} Its guard rails hold the next wave{why}."


_MESSAGE_DEFERRALS: Final[Mapping[str, str]] = {
    DeferReason.PROVIDER_UNAVAILABLE: "The provider does not accept email.",
    DeferReason.PROVIDER_THROTTLED: "The provider asked Mailwright to send more slowly.",
    DeferReason.PROVIDER_MISSING: "The provider that may already have the messages is no longer configured.",
    DeferReason.DOMAIN_RATE: "Send rate limit for the recipients' domains reached.",
    DeferReason.DOMAIN_CONCURRENCY: "Limit of simultaneous messages to the recipients' domains reached.",
    DeferReason.TENANT_CONCURRENCY: "The tenant's limit of messages in flight is reached.",
    DeferReason.ONE_AT_A_TIME: "Messages are sent one at a time, and one is being sent.",
    DeferReason.RESEND_TURN: "Unconfirmed messages are sent again one at a time.",
    DeferReason.RECIPIENT_HOURS: "Outside working hours in the time zones of all remaining recipients.",
    DeferReason.SNOOZED: "All remaining recipients have paused bulk email.",
    DeferReason.FREQUENCY_CAP: "All remaining recipients have received as many bulk emails as the cap allows.",
    RETRY_SCHEDULED: "All remaining messages failed temporarily and will be tried again.",
}


def _message_deferral(times: _Times, campaign: CampaignExplanation) -> str:
    code = campaign.reason if campaign.detail is None else f"{campaign.reason}:{campaign.detail}"
    general = _MESSAGE_DEFERRALS.get(campaign.reason or "", "All remaining messages are deferred.")
    why = _MESSAGE_DEFERRALS.get(code or "", general)
    left = f"{count_text(campaign.unsent, 'message')} left."
    if campaign.held_since is not None:
        return f"{_hold_sentence(times, campaign.reason or '', campaign.held_since)} {left}"
    if code == DeferReason.PROVIDER_UNAVAILABLE:
        return f"{why} {left} Mailwright tries again at {times.at(campaign.until)}."
    return f"{why} {left} {_start_or_resume(campaign)} at {times.at(campaign.until)}."


def _start_or_resume(campaign: CampaignExplanation) -> str:
    """Return `Sending resumes`, or `Sending starts` if no message of the campaign has been sent yet."""
    return "Sending resumes" if campaign.recipients > campaign.unsent else "Sending starts"


def _paused_campaign(times: _Times, campaign: CampaignExplanation) -> str:
    if campaign.reason != GUARD_RAILS or campaign.guard is None or campaign.guard.finding is None:
        return "Paused. It keeps its position in the queue."
    why = guard_finding_text(campaign.guard.finding)
    return f"Stopped by its guard rails at {times.at(campaign.guard.found_at)}: {why}."


def _guard_note(times: _Times, campaign: CampaignExplanation) -> str:
    """Return what the guard rails found about a campaign that they did not stop."""
    state = campaign.guard
    if state is None or state.finding is None or campaign.reason == GUARD_RAILS:
        return ""
    why = f"{guard_finding_text(state.finding)} (found at {times.at(state.found_at)})"
    if state.slow_per_hour is not None:
        return f" Slowed down to {state.slow_per_hour:,} emails per hour by its guard rails: {why}."
    return f" Warning of its guard rails: {why}."


_INCIDENTS: Final[Mapping[Incident, str]] = {Incident.HARD_BOUNCE: "hard bounce", Incident.COMPLAINT: "complaint"}
GUARD_ACTIONS: Final[Mapping[GuardAction, str]] = {
    GuardAction.WARN: "Warned",
    GuardAction.SLOW_DOWN: "Slowed down",
    GuardAction.STOP: "Stopped",
}


def guard_finding_text(finding: GuardFinding) -> str:
    """Return the threshold that was passed: `7 complaints among 1,000 emails (0.7 %), more than 0.3 %`."""
    incidents = count_text(finding.incidents, _INCIDENTS[finding.kind])
    emails = count_text(finding.messages, "email")
    return f"{incidents} among {emails} ({finding.percent:.2g} %), more than the threshold of {finding.threshold:g} %"


_NOT_RECEIVED: Final[Mapping[str, str]] = {
    "FREQUENCY_CAP": "had reached the frequency cap until after the lifetime of the email",
    "RECIPIENT_SNOOZED": "had paused bulk email until after the lifetime of the email",
    "RECIPIENT_SUPPRESSED": "had unsubscribed or were suppressed",
    "RECIPIENT_NOT_FOUND": "had been deleted",
}


def _sent_campaign(times: _Times, campaign: CampaignExplanation) -> str:
    when = f" at {times.at(campaign.finished_at)}" if campaign.finished_at else ""
    if not campaign.failure_codes:
        return f"Sent{when}."
    reasons = ", ".join(
        f"{count_text(number, 'recipient')} {_NOT_RECEIVED.get(code, code)}" for code, number in campaign.failure_codes
    )
    return f"Finished{when}, but nobody received it: {reasons}."


_CampaignSentence = Callable[[_Times, CampaignExplanation], str]
_CAMPAIGN_SENTENCES: Final[Mapping[CampaignState, _CampaignSentence]] = {
    CampaignState.DRAFT: _draft,
    CampaignState.SCHEDULED: lambda times, campaign: f"Scheduled for {times.at(campaign.until)}.",
    CampaignState.OVERDUE: lambda times, campaign: (
        f"Held: it was scheduled for {times.at(campaign.scheduled_at)}, but no worker sent it within a day."
    ),
    CampaignState.PAUSED: _paused_campaign,
    CampaignState.HELD: _held_campaign,
    CampaignState.NO_WORKER: lambda times, campaign: "Ready to send, but no worker is running.",
    CampaignState.IN_LINE: lambda times, campaign: (
        f"Queued: campaign {campaign.campaign_ahead} of the same tenant is sent first."
    ),
    CampaignState.SENDING: lambda times, campaign: f"Sending. {count_text(campaign.unsent, 'message')} left.",
    CampaignState.FAILURES: lambda times, campaign: (
        f"Sent. {campaign.failed:,} of {count_text(campaign.recipients, 'recipient')} failed."
    ),
    CampaignState.IN_DOUBT: lambda times, campaign: f"Sent. {_unconfirmed(campaign)}",
    CampaignState.SENT: _sent_campaign,
    CampaignState.CANCELLED: _cancelled_campaign,
}


def _forecast_sentence(times: _Times, campaign: CampaignExplanation) -> str | None:
    if campaign.forecast_start is None:
        return None
    condition = "" if campaign.has_worker else "No worker is running. If one starts now: "
    starts = f"{condition}Sending"
    if campaign.forecast_start > times.now:
        starts = f"{condition}{_start_or_resume(campaign)} at {times.at(campaign.forecast_start)} and"
    if campaign.is_rate_unknown:
        return f"{starts} finishes at a time that is not known until the send rate is measured."
    if campaign.forecast_end is None:
        why = f" because of the {limit_name(campaign.forecast_blocker)}" if campaign.forecast_blocker else ""
        return f"{starts} does not finish within a year{why}."
    left = count_text(campaign.forecast_messages, "message")
    return f"{starts} finishes at {times.at(campaign.forecast_end)}. {left} left."


# Remedies.

_REMEDIES: Final[Mapping[Remedy, str]] = {
    Remedy.NOT_NEEDED: "No action is needed. A running worker handles it within seconds.",
    Remedy.WAIT: "No action is needed. Sending resumes automatically.",
    Remedy.START_WORKER: "Start a worker.",
    Remedy.ADD_WORKERS: "Run more workers, or give its tenant a larger weight.",
    Remedy.NEW_MESSAGE: "Nothing. Send a new message if it is still wanted.",
    Remedy.CORRECTED_MESSAGE: "Nothing. If it is still wanted, correct the problem and send a new message.",
    Remedy.ASK_RECIPIENT: "Nothing. Ask the recipient, and send a new message if it did not arrive.",
    Remedy.OTHER_ADDRESS: (
        "Send a new message to another address. If {recipient} is correct, reactivate it and then retry."
    ),
    Remedy.ACTIVATE_ADDRESS: "Reactivate {recipient} if it may receive email again.",
    Remedy.ACTIVATE_AND_RETRY: "Remove {recipient} from the suppression list if it may receive email, then retry.",
    Remedy.RETRY: "Retry it when the cause is fixed. The count of attempts then starts again.",
    Remedy.RETRY_AFTER_PAUSE: "Nothing. The recipient has paused bulk email. Retry it after the pause has ended.",
    Remedy.RETRY_BELOW_CAP: (
        "Retry it when the recipient may receive another bulk email, or raise the frequency cap of the tenant first."
    ),
    Remedy.RESOLVE: "Wait for a report from the provider, or decide yourself: sent, resend or close.",
    Remedy.CANCEL: "It cannot be sent earlier. You can cancel it.",
    Remedy.PROVIDER_RESPONSE: "Wait for the provider's response.",
    Remedy.PROVIDER_RECOVERY: "The provider must accept email again. Check its status.",
    Remedy.RESTORE_PROVIDER: (
        "Route the tenant to the provider again, or add it to MAILWRIGHT_ROUTE if it is one of the installation, or "
        "cancel the messages that wait for it."
    ),
    Remedy.ROUTE_TO_PROVIDER: "Route tenant {tenant} to the provider again until it is sent, or cancel it.",
    Remedy.FORMER_SERVER: (
        "Look for it in the log of the former server, or ask the recipient. Then cancel it, and send a new message if "
        "it did not arrive."
    ),
    Remedy.MORE_QUOTA: "Get more quota from the provider, then sync the quota.",
    Remedy.HIGHER_PROVIDER_RATE: "Get a higher send rate from the provider.",
    Remedy.CHANGE_FREQUENCY_CAP: (
        "Raise the frequency cap of the tenant or turn it off, or let the campaign ignore it with a reason. "
        "Otherwise sending continues automatically."
    ),
    Remedy.CHANGE_DOMAIN_LIMITS: "Raise the limit in MAILWRIGHT_DOMAIN_LIMITS for later messages.",
    Remedy.START_CAMPAIGN: "Start the campaign.",
    Remedy.RESUME_CAMPAIGN: "Resume the campaign.",
    Remedy.RESUME_SEQUENCE: "Resume the sequence.",
    Remedy.RESCHEDULE_CAMPAIGN: "Change its send time, or cancel the campaign.",
    Remedy.SEND_OR_RESCHEDULE: "Send it now, choose another send time, or cancel the campaign.",
    Remedy.CANCEL_CAMPAIGN: "It cannot be sent earlier. You can cancel the campaign.",
    Remedy.PAUSE_CAMPAIGN_AHEAD: "Pause campaign {campaign_ahead} to send this one first.",
    Remedy.PAUSE_AND_RESUME: "Pause and then resume the campaign to end the deferral now.",
    Remedy.CHOOSE_WINNER: "Choose the winner now, or wait for the result.",
    Remedy.CHOOSE_VARIANT: "Choose the variant that all other recipients receive.",
    Remedy.RETRY_OR_ACCEPT_FAILURES: "Retry the failed recipients, or accept the failures.",
    Remedy.MEET_SENDER_RULES: (
        "Set up SPF, DKIM, DMARC, a public https URL and a postal address, or override the rules."
    ),
    Remedy.CHECK_INCIDENTS: (
        "Find the cause: check where the addresses come from, and the content. Then resume or cancel the campaign. "
        "After a resume, only emails sent from then on count."
    ),
    Remedy.ACCEPT_INCIDENTS: (
        "Pause the campaign and find the cause, or accept the incidents: then only emails sent from now on count."
    ),
    Remedy.OPEN_WAVE: "Open the next wave now, or wait. You can also pause or cancel the campaign.",
    Remedy.CHECK_AND_OPEN_WAVE: (
        "Find the cause: check where the addresses come from, and the content. Then open the next wave or cancel the "
        "campaign."
    ),
    Remedy.REQUEST_APPROVAL: "Check the plan, and request approval.",
    Remedy.APPROVE_CAMPAIGN: (
        "Another person who may start campaigns opens the plan in the dashboard, and approves or rejects it."
    ),
    Remedy.RELEASE_SENDING: (
        "An operator reviews the quarantine, decides whether messages that were due are sent or stay unconfirmed, and "
        "then resumes sending."
    ),
    Remedy.RESOLVE_MESSAGES: "Wait for reports from the provider, or decide yourself: sent, resend or close.",
}


def remedy_text(explanation: Explanation) -> str | None:
    """Return the advice that every interface shows under `What you can do`."""
    remedy = explanation.remedy
    if remedy is None:
        return None
    if remedy is Remedy.CHANGE_LIMIT:
        return _change_limit(explanation)
    return _REMEDIES[remedy].format(
        recipient=getattr(explanation, "recipient", None),
        campaign_ahead=getattr(explanation, "campaign_ahead", None),
        tenant=getattr(explanation, "tenant", None),
    )


def _change_limit(explanation: Explanation) -> str:
    limit = explanation.limit
    if limit is None:
        return "Change the limit."
    text = _CHANGE_LIMIT.get(limit.name, f"Raise the {limit_name(limit.name)}{{of}}.")
    if limit.scope is LimitScope.TENANT_OR_CAMPAIGN:
        return f"{text.format(of='')} The campaign's explanation shows whose limit it is."
    return text.format(of=_limit_owner(limit))


# Deferrals in lists and tables.


@dataclass(frozen=True, slots=True)
class DeferralLabel:
    """A deferral in a few words, and the preposition before the time at which it ends."""

    text: str
    preposition: str = "until"


_DEFERRAL_LABELS: Final[Mapping[str, DeferralLabel]] = {
    "rate_per_second": DeferralLabel("Limit per second reached"),
    "rate_per_hour": DeferralLabel("Hourly limit reached"),
    "daily_limit": DeferralLabel("Daily limit reached"),
    "outside_hours": DeferralLabel("Outside working hours"),
    "warmup": DeferralLabel("Warm-up limit reached"),
    INTERVAL: DeferralLabel("Interval between messages, next one", "at"),
    ONE_AT_A_TIME: DeferralLabel("One message at a time"),
    "max_in_flight": DeferralLabel("Limit of messages in flight reached"),
    "domain_limit": DeferralLabel("Domain limit reached"),
    DeferReason.FREQUENCY_CAP: DeferralLabel("Frequency cap reached"),
    DeferReason.SNOOZED: DeferralLabel("Paused by the recipient"),
    QUOTA_EXHAUSTED: DeferralLabel("Provider quota used up"),
    PROVIDER_RATE: DeferralLabel("Provider send rate reached"),
    PROVIDER_LIMIT: DeferralLabel("Limit of the provider reached"),
    DeferReason.PROVIDER_UNAVAILABLE: DeferralLabel("Provider unavailable, next attempt", "at"),
    DeferReason.PROVIDER_THROTTLED: DeferralLabel("Slowed down by the provider"),
    DeferReason.PROVIDER_MISSING: DeferralLabel("Provider no longer configured"),
    DeferReason.RESEND_TURN: DeferralLabel("Waiting to be sent again"),
    RETRY_SCHEDULED: DeferralLabel("Next attempt", "at"),
    IN_LINE: DeferralLabel("Queued behind other campaigns"),
    PAUSED: DeferralLabel("Paused"),
    CANCELLED: DeferralLabel("Cancelled"),
    SCHEDULED: DeferralLabel("Scheduled", "for"),
    SCHEDULE_OVERDUE: DeferralLabel("Held: the send time has passed"),
    AWAITING_WINNER: DeferralLabel("A/B test running"),
    UNDECIDED: DeferralLabel("A/B test undecided: choose a variant"),
    SENDER_RULES: DeferralLabel("Sender rules not met, next check", "at"),
    GUARD_RAILS: DeferralLabel("Stopped by guard rails"),
    AWAITS_APPROVAL: DeferralLabel("Waits for the approval of a second person"),
    NEXT_WAVE: DeferralLabel("Watching this wave; the next one opens", "at"),
    HoldReason.RESTORED: DeferralLabel("All sending is on hold: database restored"),
    HoldReason.REPLACED: DeferralLabel("All sending is on hold: database replaced"),
    HoldReason.REPORTED: DeferralLabel("All sending is on hold: unknown messages reported"),
}


def deferral_label(reason: str) -> DeferralLabel:
    code = split_defer_reason(reason)[0] or reason
    return _DEFERRAL_LABELS.get(code) or DeferralLabel(code.replace("_", " ").capitalize())


def has_end(until: Instant | None) -> bool:
    """Return whether a deferral ends by itself, without a user's action."""
    return until is not None and until < INDEFINITELY


def deferral_text(reason: str, until: Instant | None, now: Instant, zone: tzinfo = UTC) -> str:
    """Return a deferral in one line: `Hourly limit reached until 15:00 UTC (in 12 minutes)`."""
    label = deferral_label(reason)
    if until is None or not has_end(until):
        return label.text
    return f"{label.text} {label.preposition} {time_text(until, now, zone)}"


# Forecasts.

_ASSUMPTIONS: Final[Mapping[ForecastAssumption, str]] = {
    ForecastAssumption.NO_OTHER_MESSAGES: (
        "Assumes that nothing else is sent in the meantime, limits do not change, and providers accept every message."
    ),
    ForecastAssumption.PROVIDER_RECOVERS: "The provider accepts email again at the next attempt.",
    ForecastAssumption.ASSUMED_RATE: (
        f"The send rate is not measured yet, so the forecast assumes {ASSUMED_RATE:g} messages per second."
    ),
    ForecastAssumption.SENDING_HELD: "All sending is on hold until an operator resumes it.",
    ForecastAssumption.NO_WORKER: "No worker is running. The times assume that one starts now.",
    ForecastAssumption.WORKER_LOST: (
        "A worker stopped while it held messages. Others take them over when its leases end, within 30 seconds."
    ),
    ForecastAssumption.LAST_RATE: "Messages are sent at the highest rate of the last days.",
    ForecastAssumption.ONE_AT_A_TIME_RATE: (
        f"Messages that are sent one at a time take {1 / ONE_AT_A_TIME_RATE:g} seconds each."
    ),
    ForecastAssumption.LEARNED_RATE: "The provider throttles, and keeps accepting as many messages as it does now.",
    ForecastAssumption.HOURLY_QUOTA: "The providers' hourly quota is renewed at every full hour.",
    ForecastAssumption.DAILY_QUOTA: "The providers' quota is renewed a day after they reported it.",
    ForecastAssumption.NO_MORE_QUOTA: (
        "The providers' quota is not renewed, because they do not report when it will be."
    ),
}


def assumption_text(assumption: ForecastAssumption) -> str:
    return _ASSUMPTIONS[assumption]


def _is_are(number: int) -> str:
    return "is" if number == 1 else "are"
