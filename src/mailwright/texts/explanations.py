"""Explanations, deferrals and forecasts in English. No other module writes sentences about them."""

from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo
from typing import Final

from mailwright.domain.campaign import (
    AWAITING_WINNER,
    AWAITS_APPROVAL,
    CANCELLED,
    ENQUEUE_FAILED,
    GUARD_RAILS,
    INDEFINITELY,
    NEXT_WAVE,
    NO_WORKER,
    PAUSED,
    QUEUED,
    SCHEDULE_OVERDUE,
    SCHEDULED,
    SENDER_RULES,
    UNDECIDED,
)
from mailwright.domain.clock import Instant
from mailwright.domain.explanation import (
    DAILY_LIMITS,
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
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.lifetimes import DELAYED_AFTER
from mailwright.domain.permits import (
    PROVIDER_LIMIT,
    PROVIDER_RATE,
    QUOTA_EXHAUSTED,
    QUOTA_PER_DAY,
    QUOTA_PER_HOUR,
    THROTTLED_RATE,
    BulkLimit,
    DeferReason,
    split_defer_reason,
)
from mailwright.domain.sending_readiness import Destination
from mailwright.domain.translation import gettext, lazy_gettext, lazy_pgettext, marked_plural, ngettext, number_text
from mailwright.outbox.sending_hold import HoldReason, SendingHold
from mailwright.policies.domains import OTHERS
from mailwright.policies.pacing import INTERVAL, ONE_AT_A_TIME
from mailwright.sources.campaigns.deferrals import RETRY_SCHEDULED
from mailwright.sources.campaigns.forecast_values import ASSUMED_RATE, IN_LINE, ONE_AT_A_TIME_RATE, ForecastAssumption
from mailwright.texts.times import count_text, time_text


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
        sentence += " " + gettext(
            "A worker stopped while it held {lost_messages}; others take over at {lost_until}.",
            lost_messages=count_text(explanation.lost_messages, "message"),
            lost_until=times.at(explanation.lost_until),
        )
    return ExplanationText(sentence, remedy_text(explanation), _forecast_sentence(times, explanation))


def mailout_wait_text(remedy: Remedy) -> ExplanationText:
    """Describe why a mailout waits. The only possible reason is that no worker runs."""
    return ExplanationText(gettext("No worker is running, so nothing is sent."), _REMEDIES[remedy])


@dataclass(frozen=True, slots=True)
class _Times:
    """Formats times for a reader in one time zone, relative to now."""

    now: Instant
    zone: tzinfo

    def at(self, instant: Instant | None) -> str:
        """Return the time, or `an unknown time` for data that was never recorded."""
        return gettext("an unknown time") if instant is None else time_text(instant, self.now, self.zone)


# Limits.

LIMIT_NAMES: Final[Mapping[str, str]] = {
    "rate_per_second": lazy_gettext("limit per second"),
    "rate_per_hour": lazy_gettext("hourly limit"),
    "daily_limit": lazy_gettext("daily limit"),
    "outside_hours": lazy_gettext("working hours"),
    "warmup": lazy_gettext("warm-up limit"),
    INTERVAL: lazy_gettext("interval between messages"),
    ONE_AT_A_TIME: lazy_gettext("one message at a time"),
    "max_in_flight": lazy_gettext("limit of messages in flight"),
    "domain_limit": lazy_gettext("domain limit"),
    DeferReason.FREQUENCY_CAP: lazy_gettext("frequency cap"),
    DeferReason.SNOOZED: lazy_gettext("pause by the recipient"),
    DeferReason.SPREAD: lazy_gettext("overdue emails spread over time"),
    QUOTA_EXHAUSTED: lazy_gettext("provider quota"),
    QUOTA_PER_HOUR: lazy_gettext("hourly provider quota"),
    QUOTA_PER_DAY: lazy_gettext("daily provider quota"),
    PROVIDER_RATE: lazy_gettext("provider send rate"),
    DeferReason.PROVIDER_THROTTLED: lazy_gettext("throttling by the provider"),
    IN_LINE: lazy_gettext("other emails first"),
    QUEUED: lazy_gettext("other campaigns first"),
    NO_WORKER: lazy_gettext("no worker"),
    ENQUEUE_FAILED: lazy_gettext("error while its messages were created"),
    PAUSED: lazy_gettext("paused"),
    SCHEDULED: lazy_gettext("scheduled"),
    SCHEDULE_OVERDUE: lazy_gettext("overdue schedule"),
    AWAITING_WINNER: lazy_gettext("A/B test"),
    UNDECIDED: lazy_gettext("undecided A/B test"),
    SENDER_RULES: lazy_gettext("sender rules"),
    GUARD_RAILS: lazy_gettext("guard rails"),
    NEXT_WAVE: lazy_gettext("wait for the next wave"),
    AWAITS_APPROVAL: lazy_gettext("approval by a second person"),
    HoldReason.RESTORED: lazy_gettext("hold after a restored database"),
    HoldReason.REPLACED: lazy_gettext("hold after a replaced database"),
    HoldReason.UNMARKED: lazy_gettext("hold of a database without a marker"),
    HoldReason.REPORTED: lazy_gettext("hold after a report of unknown messages"),
    HoldReason.FAILED_OVER: lazy_gettext("comparison after a failover of the database"),
}


def limit_name(reason: str) -> str:
    """Return the name of the rule, for a legend or a heading: `hourly limit`."""
    return LIMIT_NAMES.get(reason, reason.replace("_", " "))


_LIMIT_REACHED: Final[Mapping[str, str]] = {
    "rate_per_hour": lazy_gettext("Hourly limit{of} reached{usage}."),
    "daily_limit": lazy_gettext("Daily limit{of} reached{usage}."),
    "outside_hours": lazy_gettext("Outside working hours{of}."),
    "warmup": lazy_gettext("Warm-up limit{of} reached{usage}."),
    "max_in_flight": lazy_gettext("Limit of messages in flight{of} reached{usage}."),
    DeferReason.DOMAIN_RATE: lazy_gettext("Send rate limit{of} reached."),
    DeferReason.DOMAIN_CONCURRENCY: lazy_gettext("Limit of simultaneous messages{of} reached."),
    QUOTA_EXHAUSTED: lazy_gettext("Provider quota used up."),
    THROTTLED_RATE: lazy_gettext("Slowed down by the provider{usage}."),
}
_CHANGE_LIMIT: Final[Mapping[str, str]] = {
    "outside_hours": lazy_gettext("Change the working hours{of}."),
    "warmup": lazy_gettext("End the warm-up{of}."),
}


def _limit_sentence(limit: ReachedLimit, campaign: str | None = None) -> str:
    text = _LIMIT_REACHED.get(limit.name, f"Deferred by {limit_name(limit.name)}{{of}}.")
    return text.format(of=_limit_owner(limit, campaign), usage=_limit_usage(limit))


def _limit_owner(limit: ReachedLimit, campaign: str | None = None) -> str:
    match limit.scope:
        case LimitScope.INSTALLATION:
            return " " + gettext("of the installation")
        case LimitScope.TENANT:
            return " " + gettext("of tenant {owner}", owner=limit.owner)
        case LimitScope.CAMPAIGN:
            named = gettext("of campaign {campaign}", campaign=campaign)
            return " " + (gettext("of the campaign") if campaign is None else named)
        case LimitScope.DOMAIN:
            return " " + gettext("for {owner}", owner=limit.owner)
        case LimitScope.PROVIDER:
            return (" " + gettext("of provider {owner}", owner=limit.owner)) if limit.owner else ""


def _limit_usage(limit: ReachedLimit) -> str:
    if limit.allowed is None:
        return ""
    if limit.name == THROTTLED_RATE:
        return " " + gettext("to about {allowed} per second", allowed=count_text(limit.allowed, "message"))
    if limit.used is None:
        return f" ({limit.allowed:,})"
    reserved = (
        gettext(", {reserved} reserved for transactional email", reserved=number_text(limit.reserved))
        if limit.reserved
        else ""
    )
    return " " + gettext(
        "({used} of {allowed}{reserved})",
        used=number_text(limit.used),
        allowed=number_text(limit.allowed),
        reserved=reserved,
    )


# Messages.


def _sent(times: _Times, message: MessageExplanation) -> str:
    provider = (" " + gettext("by {provider}", provider=message.provider)) if message.provider else ""
    when = (" " + gettext("at {occurred_at}", occurred_at=times.at(message.occurred_at))) if message.occurred_at else ""
    match message.destination:
        case Destination.LOCAL_MAILBOX:
            return gettext("Stored in the local mailbox{when}. Nobody receives it.", when=when) + _bounce(message)
        case Destination.TEST_SERVER:
            return gettext("Collected by a test server{when}. Nobody receives it.", when=when) + _bounce(message)
    return gettext("Sent{provider}{when}.{message_text}", provider=provider, when=when, message_text=_bounce(message))


_BOUNCES: Final[Mapping[str, str]] = {
    "hard_bounce": lazy_gettext("It bounced permanently."),
    "soft_bounce": lazy_gettext("It bounced temporarily."),
    "bounce": lazy_gettext("It bounced for a reason that does not affect the address."),
    "complaint": lazy_gettext("The recipient reported it as spam."),
}


def _bounce(message: MessageExplanation) -> str:
    if message.bounce is None:
        return ""
    blocked = (
        (" " + gettext("No more email is sent to {recipient}.", recipient=message.recipient))
        if message.is_suppressed
        else ""
    )
    return f" {_BOUNCES[message.bounce]}{blocked}"


def _failed(times: _Times, message: MessageExplanation) -> str:
    when = (" " + gettext("at {occurred_at}", occurred_at=times.at(message.occurred_at))) if message.occurred_at else ""
    return gettext("Failed{when}. {error}{bounce}", when=when, error=_error(message), bounce=_bounce(message))


def _error(message: MessageExplanation) -> str:
    if message.error_code is None:
        return gettext("The error is unknown.")
    reason = f": {message.error_reason.rstrip('.')}" if message.error_reason else ""
    return gettext("Error {error_code}{reason}.", error_code=message.error_code, reason=reason)


def _in_doubt(times: _Times, message: MessageExplanation) -> str:
    next_step = gettext("sent again with the same Message-ID") if message.will_resend else gettext("closed as unknown")
    return gettext(
        "Unconfirmed: the provider may or may not have it. {message_text} If the provider does "
        "not report on it, it will be {next_step} at {until}.",
        message_text=_error(message),
        next_step=next_step,
        until=times.at(message.until),
    )


def _claimed(times: _Times, message: MessageExplanation) -> str:
    return gettext(
        "Claimed by worker {worker}, which sends it next. If that worker stops, another one takes over at {until}.",
        worker=message.worker,
        until=times.at(message.until),
    )


def _scheduled(times: _Times, message: MessageExplanation) -> str:
    if message.reason == SCHEDULED:
        return gettext(
            "Campaign {campaign} is scheduled for {until}.", campaign=message.campaign, until=times.at(message.until)
        )
    return gettext("Scheduled for {until}.", until=times.at(message.until))


def _retrying(times: _Times, message: MessageExplanation) -> str:
    if message.retry_until is not None:
        deferrals = ngettext("once", "{count} times", message.deferrals)
        next_try = gettext("The next attempt is at {until}.", until=times.at(message.until))
        return gettext(
            "{times}The receiving server deferred it {deferrals}. {message_text} {next_try}",
            times=_delay(times, message),
            deferrals=deferrals,
            message_text=_error(message),
            next_try=next_try,
        ) + (" " + gettext("Mailwright gives up at {retry_until}.", retry_until=times.at(message.retry_until)))
    attempts = gettext(
        "Attempt {attempts} of {max_attempts} failed.", attempts=message.attempts, max_attempts=message.max_attempts
    )
    return gettext(
        "{attempts} {message_text} The next attempt is at {until}.",
        attempts=attempts,
        message_text=_error(message),
        until=times.at(message.until),
    )


def _delay(times: _Times, message: MessageExplanation) -> str:
    """Return a warning if the message has been deferred for hours, otherwise an empty string."""
    since = message.deferred_since
    return (
        ""
        if since is None or times.now - since < DELAYED_AFTER
        else (gettext("Delayed since {since}.", since=times.at(since)) + " ")
    )


def _provider_unavailable(times: _Times, message: MessageExplanation) -> str:
    if message.reason == DeferReason.PROVIDER_UNAVAILABLE:  # no worker uses the provider at present
        error = (
            (" " + gettext("because of an error: {rstrip}", rstrip=message.provider_error.rstrip(".")))
            if message.provider_error
            else ""
        )
        return gettext(
            "Provider {provider} is not used until {until}{error}.",
            provider=message.provider,
            until=times.at(message.until),
            error=error,
        )
    return _provider_deferral(times, message, gettext("does not accept email"))


def _provider_deferral(times: _Times, message: MessageExplanation, problem: str) -> str:
    provider = (
        gettext("Provider {provider}", provider=message.provider) if message.provider else gettext("The provider")
    )
    next_try = gettext(
        "Mailwright tries again at {until}. The deferral does not count as an attempt.", until=times.at(message.until)
    )
    error = f" {_error(message)}" if message.error_code else ""
    return f"{_delay(times, message)}{provider} {problem}.{error} {next_try}"


def _provider_missing(times: _Times, message: MessageExplanation) -> str:
    if message.remedy is Remedy.FORMER_SERVER:
        return gettext(
            "A former server of {provider} may already have it, so no other server may send it.",
            provider=message.provider,
        )
    if message.route_to is not None:
        return gettext(
            "Provider {provider} may already have it, so no other provider may send it, and the "
            "route of tenant {tenant} names another one. Mailwright checks this again at {until}.",
            provider=message.provider,
            tenant=message.tenant,
            until=times.at(message.until),
        )
    return gettext(
        "Provider {provider} may already have it, so no other provider may send it, and no "
        "worker uses {provider} any more. Mailwright checks this again at {until}.",
        provider=message.provider,
        until=times.at(message.until),
    )


def _limited(times: _Times, message: MessageExplanation) -> str:
    limit = _limit_sentence(message.limit, message.campaign) if message.limit else gettext("Deferred.")
    return f"{limit} {_resumes(times, message)}"


def _resumes(times: _Times, explanation: Explanation, goes_on: str = lazy_gettext("Sending resumes")) -> str:
    """Return a sentence that says when sending resumes and, for a daily limit, why not at midnight."""
    resumes = gettext("{goes_on} at {until}.", goes_on=goes_on, until=times.at(explanation.until))
    limit = explanation.limit
    if limit is None or limit.name not in DAILY_LIMITS:
        return resumes
    counts = (
        gettext("The limit counts calendar days.")
        if limit.timezone is None
        else gettext("The limit counts calendar days in the time zone {zone}.", zone=limit.timezone)
    )
    next_day = gettext(
        "On the next day, sending begins when the working hours open, or at 09:00 without working hours."
    )
    return f"{resumes} {counts} {next_day}"


_HOLD_CAUSES: Final[Mapping[str, str]] = {
    HoldReason.RESTORED: lazy_gettext(
        "the database was restored from a backup, so messages sent after the backup are unknown"
    ),
    HoldReason.REPLACED: lazy_gettext(
        "the database is not the one that was used here before, so earlier messages are unknown"
    ),
    HoldReason.UNMARKED: lazy_gettext(
        "this machine has no marker of the database, which may therefore be an old copy that does not know all "
        "messages sent"
    ),
    HoldReason.REPORTED: lazy_gettext(
        "a provider reported a message that is not in this database, which may therefore be a backup"
    ),
    HoldReason.FAILED_OVER: lazy_gettext(
        "another database server took over, which may lack the latest commits, and is compared with what was sent"
    ),
}


def _hold_sentence(times: _Times, reason: str, since: Instant | None) -> str:
    """Return a sentence that says why all sending is on hold, and since when."""
    return gettext(
        "All sending has been on hold since {since}: {hold_causes}.",
        since=times.at(since),
        hold_causes=_HOLD_CAUSES[reason],
    )


def hold_text(hold: SendingHold, now: Instant, zone: tzinfo = UTC) -> str:
    """Return the warning for a caller whose message is accepted while all sending is on hold."""
    accepted = gettext("New messages are accepted and wait until sending resumes.")
    return (
        f"{_hold_sentence(_Times(now, zone), hold.reason, hold.since)} {accepted} {_REMEDIES[Remedy.RELEASE_SENDING]}"
    )


def _held(times: _Times, message: MessageExplanation) -> str:  # noqa: PLR0911, PLR0912 - a table
    if message.held_since is not None:
        return gettext(
            "{times} This message waits.", times=_hold_sentence(times, message.reason or "", message.held_since)
        )
    match message.reason:
        case "paused" | "cancelled" | DeferReason.SPREAD if message.sequence is not None:
            return _held_sequence(times, message)
        case "paused":
            return gettext("Campaign {campaign} is paused.", campaign=message.campaign)
        case "guard_rails":
            return gettext(
                "Campaign {campaign} was stopped by its guard rails: too many bounces or complaints.",
                campaign=message.campaign,
            )
        case "next_wave":
            opens = gettext(
                "The next wave opens at {until}, and this message is tried again then.", until=times.at(message.until)
            )
            return gettext(
                "Campaign {campaign} waits between two waves. {opens}", campaign=message.campaign, opens=opens
            )
        case "cancelled":
            return gettext(
                "Campaign {campaign} was cancelled. A worker will cancel this message shortly.",
                campaign=message.campaign,
            )
        case "waits_for_winner":
            chosen = gettext("The winner will be chosen at {until}.", until=times.at(message.until))
            return gettext(
                "Campaign {campaign} is running an A/B test. {chosen}", campaign=message.campaign, chosen=chosen
            )
        case "ab_test_undecided":
            return gettext(
                "The A/B test of campaign {campaign} is undecided. {undecided_next}",
                campaign=message.campaign,
                undecided_next=_UNDECIDED_NEXT,
            )
        case "awaits_approval":
            return gettext("Campaign {campaign} waits until a second person approves it.", campaign=message.campaign)
        case "sender_rules":
            again = gettext("Mailwright checks them again at {until}.", until=times.at(message.until))
            return gettext(
                "Campaign {campaign} does not meet the rules of the large mailbox providers. {again}",
                campaign=message.campaign,
                again=again,
            )
        case DeferReason.FREQUENCY_CAP if message.limit is not None:
            return _capped(times, message, message.limit)
        case DeferReason.SNOOZED:
            return _snoozed(times, message)
        case "outside_hours" if message.limit is None:
            return gettext(
                "Outside working hours in the recipient's time zone. Sending resumes at {until}.",
                until=times.at(message.until),
            )
        case _:
            return _limited(times, message)


def _held_sequence(times: _Times, message: MessageExplanation) -> str:
    match message.reason:
        case "paused":
            return gettext("Sequence {sequence} is paused.", sequence=message.sequence)
        case "cancelled":
            return gettext(
                "Sequence {sequence} was archived. A worker will cancel this message shortly.",
                sequence=message.sequence,
            )
    return gettext(
        "The overdue emails of sequence {sequence} are spread over some hours. This one can be sent at {until}.",
        sequence=message.sequence,
        until=times.at(message.until),
    )


def _snoozed(times: _Times, message: MessageExplanation) -> str:
    return gettext(
        "{who} has paused bulk email until {until}. This email can be sent then.",
        who=message.contact_name or gettext("Recipient {recipient}", recipient=message.recipient),
        until=times.at(message.until),
    )


def _capped(times: _Times, message: MessageExplanation, limit: ReachedLimit) -> str:
    who = message.contact_name or gettext("Recipient {recipient}", recipient=message.recipient)
    until = times.at(message.until)
    if message.occurred_at is None:
        return gettext(
            "{who} has received {used} of {allowed} bulk emails. This email can be sent from {until}.",
            who=who,
            used=limit.used,
            allowed=limit.allowed,
            until=until,
        )
    return gettext(
        "{who} has received {used} of {allowed} bulk emails since {since}. This email can be sent from {until}.",
        who=who,
        used=limit.used,
        allowed=limit.allowed,
        since=times.at(message.occurred_at),
        until=until,
    )


def _queued(times: _Times, message: MessageExplanation) -> str:
    if message.reason == DeferReason.RESEND_TURN:
        again = gettext("The next check is at {until}.", until=times.at(message.until))
        return gettext(
            "Queued to be sent again: unconfirmed messages are sent again one at a time. {again}", again=again
        )
    if message.reason == DeferReason.ONE_AT_A_TIME:
        again = gettext("The next check is at {until}.", until=times.at(message.until))
        return gettext("Queued: messages are sent one at a time, and another one is being sent. {again}", again=again)
    if message.ahead > MAX_POSITION:
        position = gettext(
            "more than {max_position} messages of its lane are due first", max_position=number_text(MAX_POSITION)
        )
    elif message.ahead:
        position = gettext(
            "{ahead} of its lane {ahead2} due first",
            ahead=count_text(message.ahead, "message"),
            ahead2=_is_are(message.ahead),
        )
    else:
        position = gettext("it is the next message of its lane")
    ahead = (
        (" " + gettext("Campaign {campaign_ahead} is sent first.", campaign_ahead=message.campaign_ahead))
        if message.campaign_ahead
        else ""
    )
    return gettext("Queued: {position}.{ahead}", position=position, ahead=ahead)


def _suspect(_: _Times, message: MessageExplanation) -> str:
    claims = ngettext("once", "{count} times", message.claims)
    return gettext(
        "Claimed {claims} without a result. The next worker will send it separately from other messages.", claims=claims
    )


_MessageSentence = Callable[[_Times, MessageExplanation], str]
_MESSAGE_SENTENCES: Final[Mapping[ExplanationState, _MessageSentence]] = {
    ExplanationState.SENT: _sent,
    ExplanationState.FAILED: _failed,
    ExplanationState.CANCELLED: lambda times, message: gettext("Cancelled before it was sent."),
    ExplanationState.CLOSED_UNKNOWN: lambda times, message: gettext(
        "Closed as unknown: the provider never confirmed whether it has the message."
    ),
    ExplanationState.IN_DOUBT: _in_doubt,
    ExplanationState.SENDING: lambda times, message: gettext(
        "Being sent: worker {worker} handed it to the provider at {occurred_at}.",
        worker=message.worker,
        occurred_at=times.at(message.occurred_at),
    ),
    ExplanationState.WORKER_LOST: lambda times, message: gettext(
        "Worker {worker} stopped while it was sending this message. A worker will mark it as unconfirmed.",
        worker=message.worker,
    ),
    ExplanationState.CLAIMED: _claimed,
    ExplanationState.SCHEDULED: _scheduled,
    ExplanationState.RETRYING: _retrying,
    ExplanationState.PROVIDER_UNAVAILABLE: _provider_unavailable,
    ExplanationState.PROVIDER_MISSING: _provider_missing,
    ExplanationState.THROTTLED: lambda times, message: _provider_deferral(
        times, message, gettext("asked Mailwright to send more slowly")
    ),
    ExplanationState.DOMAIN_LIMIT: _limited,
    ExplanationState.TENANT_BUSY: _limited,
    ExplanationState.HELD: _held,
    ExplanationState.EXPIRED: lambda times, message: gettext(
        "Expired at {occurred_at}. A worker will mark it as failed.", occurred_at=times.at(message.occurred_at)
    ),
    ExplanationState.NO_WORKER: lambda times, message: (
        gettext("Due, but no worker with the provider {provider} is running.", provider=message.provider)
        if message.provider
        else gettext("Due, but no worker is running.")
    ),
    ExplanationState.SUSPECT: _suspect,
    ExplanationState.IN_LINE: _queued,
}


# Campaigns.


def _cancelled_campaign(_: _Times, campaign: CampaignExplanation) -> str:
    in_doubt = f" {_unconfirmed(campaign)}" if campaign.in_doubt else ""
    return gettext("Cancelled. The remaining messages will not be sent.{in_doubt}", in_doubt=in_doubt)


def _unconfirmed(campaign: CampaignExplanation) -> str:
    messages = count_text(campaign.recipients, "message")
    return gettext(
        "{in_doubt} of {messages} {in_doubt2} unconfirmed.",
        in_doubt=number_text(campaign.in_doubt),
        messages=messages,
        in_doubt2=_is_are(campaign.in_doubt),
    )


_UNDECIDED_NEXT: Final = lazy_gettext("All other recipients wait until someone chooses the variant that they receive.")


def _held_campaign(times: _Times, campaign: CampaignExplanation) -> str:  # noqa: PLR0911 - a table
    if campaign.is_message_deferral or campaign.held_since is not None:
        return _message_deferral(times, campaign)
    if campaign.reason == AWAITS_APPROVAL:
        return gettext("Held until a second person approves it. {campaign}", campaign=_approval(campaign)).rstrip()
    if campaign.reason == UNDECIDED:
        return gettext(
            "A/B test undecided: the results do not decide it. {undecided_next}", undecided_next=_UNDECIDED_NEXT
        )
    resumes = _resumes(times, campaign, _start_or_resume(campaign))
    if campaign.reason in (NEXT_WAVE, GUARD_RAILS):
        return _between_waves(times, campaign)
    if campaign.reason == AWAITING_WINNER:
        return gettext(
            "A/B test running. It ends at {until}. If the results are clear then, the winner is "
            "sent to all other recipients.",
            until=times.at(campaign.until),
        )
    if campaign.reason == SENDER_RULES:
        return gettext(
            "Held: the audience has grown, and email to this many recipients must meet the rules "
            "of the large mailbox providers. Mailwright checks them again at {until}.",
            until=times.at(campaign.until),
        )
    if campaign.limit is None:
        return gettext(
            "Deferred by a rule that no longer applies ({reason}). {resumes}",
            reason=limit_name(campaign.reason or ""),
            resumes=resumes,
        )
    return f"{_limit_sentence(campaign.limit)} {resumes}"


def _approval(campaign: CampaignExplanation) -> str:
    """Return sentences about an approval: who must do what, and what has changed since the request."""
    changed = (" " + gettext("Changes: {changes}.", changes="; ".join(campaign.changes))) if campaign.changes else ""
    return f"{campaign.approval or ''}{changed}"


def _draft(times: _Times, campaign: CampaignExplanation) -> str:
    if campaign.reason == AWAITS_APPROVAL:
        return gettext(
            "Draft. It cannot start until a second person approves it. {campaign}", campaign=_approval(campaign)
        )
    if campaign.repeats_at is not None:
        failure = (
            (
                " "
                + gettext(
                    "At its last time, nothing was sent. {repeat_failure}", repeat_failure=campaign.repeat_failure
                )
            )
            if campaign.repeat_failure
            else ""
        )
        return gettext(
            "Draft that repeats. The next campaign is made from it at {repeats_at}.{failure}",
            repeats_at=times.at(campaign.repeats_at),
            failure=failure,
        )
    if campaign.repeat_failure is not None:
        return gettext(
            "Draft of a recurring campaign. It was not sent. {repeat_failure}", repeat_failure=campaign.repeat_failure
        )
    if campaign.scheduled_at is None:
        return gettext("Draft. It has not been started.")
    return gettext(
        "Draft. It has not been started. Its send time is {scheduled_at}.", scheduled_at=times.at(campaign.scheduled_at)
    )


def _between_waves(times: _Times, campaign: CampaignExplanation) -> str:
    sent = gettext("Wave {wave} of {waves} is sent.", wave=campaign.wave, waves=campaign.waves)
    if campaign.reason == NEXT_WAVE:
        opens = gettext("The next wave opens at {until}", until=times.at(campaign.until))
        return gettext("{sent} {opens} if its guard rails find nothing until then.", sent=sent, opens=opens)
    found = campaign.guard.finding if campaign.guard is not None else None
    why = f": {guard_finding_text(found)}" if found is not None else ""
    return gettext("{sent} Its guard rails hold the next wave{why}.", sent=sent, why=why)


_MESSAGE_DEFERRALS: Final[Mapping[str, str]] = {
    DeferReason.PROVIDER_UNAVAILABLE: lazy_gettext("The provider does not accept email."),
    DeferReason.PROVIDER_THROTTLED: lazy_gettext("The provider asked Mailwright to send more slowly."),
    DeferReason.PROVIDER_MISSING: lazy_gettext(
        "The provider that may already have the messages is no longer configured."
    ),
    DeferReason.DOMAIN_RATE: lazy_gettext("Send rate limit for the recipients' domains reached."),
    DeferReason.DOMAIN_CONCURRENCY: lazy_gettext("Limit of simultaneous messages to the recipients' domains reached."),
    DeferReason.TENANT_CONCURRENCY: lazy_gettext("The tenant's limit of messages in flight is reached."),
    DeferReason.ONE_AT_A_TIME: lazy_gettext("Messages are sent one at a time, and one is being sent."),
    DeferReason.RESEND_TURN: lazy_gettext("Unconfirmed messages are sent again one at a time."),
    DeferReason.RECIPIENT_HOURS: lazy_gettext("Outside working hours in the time zones of all remaining recipients."),
    DeferReason.SNOOZED: lazy_gettext("All remaining recipients have paused bulk email."),
    DeferReason.FREQUENCY_CAP: lazy_gettext(
        "All remaining recipients have received as many bulk emails as the cap allows."
    ),
    RETRY_SCHEDULED: lazy_gettext("All remaining messages failed temporarily and will be tried again."),
}


def _message_deferral(times: _Times, campaign: CampaignExplanation) -> str:
    code = campaign.reason if campaign.detail is None else f"{campaign.reason}:{campaign.detail}"
    general = _MESSAGE_DEFERRALS.get(campaign.reason or "", "All remaining messages are deferred.")
    why = _MESSAGE_DEFERRALS.get(code or "", general)
    left = gettext("{unsent} left.", unsent=count_text(campaign.unsent, "message"))
    if campaign.held_since is not None:
        return f"{_hold_sentence(times, campaign.reason or '', campaign.held_since)} {left}"
    if code == DeferReason.PROVIDER_UNAVAILABLE:
        return gettext(
            "{why} {left} Mailwright tries again at {until}.", why=why, left=left, until=times.at(campaign.until)
        )
    return gettext(
        "{why} {left} {campaign} at {until}.",
        why=why,
        left=left,
        campaign=_start_or_resume(campaign),
        until=times.at(campaign.until),
    )


def _start_or_resume(campaign: CampaignExplanation) -> str:
    """Return `Sending resumes`, or `Sending starts` if no message of the campaign has been sent yet."""
    has_begun = campaign.recipients > campaign.unsent - campaign.sending
    return gettext("Sending resumes") if has_begun else gettext("Sending starts")


def _paused_campaign(times: _Times, campaign: CampaignExplanation) -> str:
    if campaign.reason != GUARD_RAILS or campaign.guard is None or campaign.guard.finding is None:
        return gettext("Paused. It keeps its position in the queue.")
    why = guard_finding_text(campaign.guard.finding)
    return gettext(
        "Stopped by its guard rails at {found_at}: {why}.", found_at=times.at(campaign.guard.found_at), why=why
    )


def _guard_note(times: _Times, campaign: CampaignExplanation) -> str:
    """Return the findings of the guard rails about a campaign that they did not stop."""
    state = campaign.guard
    if state is None or state.finding is None or campaign.reason == GUARD_RAILS:
        return ""
    why = gettext(
        "{finding} (found at {found_at})", finding=guard_finding_text(state.finding), found_at=times.at(state.found_at)
    )
    if state.slow_per_hour is not None:
        return " " + gettext(
            "Slowed down to {slow_per_hour} emails per hour by its guard rails: {why}.",
            slow_per_hour=number_text(state.slow_per_hour),
            why=why,
        )
    return " " + gettext("Warning of its guard rails: {why}.", why=why)


_INCIDENTS: Final[Mapping[Incident, tuple[str, str]]] = {
    Incident.HARD_BOUNCE: marked_plural("{count} hard bounce", "{count} hard bounces"),
    Incident.COMPLAINT: marked_plural("{count} complaint", "{count} complaints"),
}
GUARD_ACTIONS: Final[Mapping[GuardAction, str]] = {
    GuardAction.WARN: lazy_gettext("Warned"),
    GuardAction.SLOW_DOWN: lazy_gettext("Slowed down"),
    GuardAction.STOP: lazy_gettext("Stopped"),
}


def guard_finding_text(finding: GuardFinding) -> str:
    """Return the threshold that was passed: `7 complaints among 1,000 emails (0.7 %), more than 0.3 %`."""
    incidents = ngettext(*_INCIDENTS[finding.kind], finding.incidents)
    emails = count_text(finding.messages, "email")
    return gettext(
        "{incidents} among {emails} ({percent} %), more than the threshold of {threshold} %",
        incidents=incidents,
        emails=emails,
        percent=f"{finding.percent:.2g}",
        threshold=f"{finding.threshold:g}",
    )


_NOT_RECEIVED: Final[Mapping[str, str]] = {
    "FREQUENCY_CAP": lazy_gettext("had reached the frequency cap until after the lifetime of the email"),
    "RECIPIENT_SNOOZED": lazy_gettext("had paused bulk email until after the lifetime of the email"),
    "RECIPIENT_SUPPRESSED": lazy_gettext("had unsubscribed or were suppressed"),
    "RECIPIENT_NOT_FOUND": lazy_gettext("had been deleted"),
}


def _sent_campaign(times: _Times, campaign: CampaignExplanation) -> str:
    when = (
        (" " + gettext("at {finished_at}", finished_at=times.at(campaign.finished_at))) if campaign.finished_at else ""
    )
    if not campaign.failure_codes:
        return gettext("Sent{when}.", when=when)
    reasons = ", ".join(
        f"{count_text(number, 'recipient')} {_NOT_RECEIVED.get(code, code)}" for code, number in campaign.failure_codes
    )
    return gettext("Finished{when}, but nobody received it: {reasons}.", when=when, reasons=reasons)


_CampaignSentence = Callable[[_Times, CampaignExplanation], str]
_CAMPAIGN_SENTENCES: Final[Mapping[CampaignState, _CampaignSentence]] = {
    CampaignState.DRAFT: _draft,
    CampaignState.SCHEDULED: lambda times, campaign: gettext("Scheduled for {until}.", until=times.at(campaign.until)),
    CampaignState.OVERDUE: lambda times, campaign: gettext(
        "Held: it was scheduled for {scheduled_at}, but no worker sent it within a day.",
        scheduled_at=times.at(campaign.scheduled_at),
    ),
    CampaignState.PAUSED: _paused_campaign,
    CampaignState.HELD: _held_campaign,
    CampaignState.NO_WORKER: lambda times, campaign: gettext("Ready to send, but no worker is running."),
    CampaignState.IN_LINE: lambda times, campaign: gettext(
        "Queued: campaign {campaign_ahead} of the same tenant is sent first.", campaign_ahead=campaign.campaign_ahead
    ),
    CampaignState.SENDING: lambda times, campaign: _sending_campaign(campaign),
    CampaignState.FAILURES: lambda times, campaign: gettext(
        "Sent. {failed} of {recipients} failed.",
        failed=number_text(campaign.failed),
        recipients=count_text(campaign.recipients, "recipient"),
    ),
    CampaignState.IN_DOUBT: lambda times, campaign: gettext("Sent. {campaign}", campaign=_unconfirmed(campaign)),
    CampaignState.SENT: _sent_campaign,
    CampaignState.CANCELLED: _cancelled_campaign,
}


def _sending_campaign(campaign: CampaignExplanation) -> str:
    sending = gettext("Sending. {unsent} left.", unsent=count_text(campaign.unsent, "message"))
    is_throttled = campaign.limit is not None and campaign.limit.name == THROTTLED_RATE
    return f"{sending} {_limit_sentence(campaign.limit)}" if campaign.limit and is_throttled else sending


def _forecast_sentence(times: _Times, campaign: CampaignExplanation) -> str | None:
    if campaign.forecast_start is None:
        return None
    condition = "" if campaign.has_worker else (gettext("No worker is running. If one starts now:") + " ")
    starts = f"{condition}Sending"
    if campaign.forecast_start > times.now:
        starts = gettext(
            "{condition}{campaign} at {forecast_start} and",
            condition=condition,
            campaign=_start_or_resume(campaign),
            forecast_start=times.at(campaign.forecast_start),
        )
    if campaign.is_rate_unknown:
        return gettext("{starts} finishes at a time that is not known until the send rate is measured.", starts=starts)
    if campaign.forecast_end is None:
        why = (
            (" " + gettext("because of the {forecast_blocker}", forecast_blocker=limit_name(campaign.forecast_blocker)))
            if campaign.forecast_blocker
            else ""
        )
        return gettext("{starts} does not finish within a year{why}.", starts=starts, why=why)
    left = count_text(campaign.forecast_messages, "message")
    return gettext(
        "{starts} finishes at {forecast_end}. {left} left.",
        starts=starts,
        forecast_end=times.at(campaign.forecast_end),
        left=left,
    )


# Remedies.

_REMEDIES: Final[Mapping[Remedy, str]] = {
    Remedy.NOT_NEEDED: lazy_gettext("No action is needed. A running worker handles it within seconds."),
    Remedy.WAIT: lazy_gettext("No action is needed. Sending resumes automatically."),
    Remedy.START_WORKER: lazy_gettext("Start a worker."),
    Remedy.ADD_WORKERS: lazy_gettext("Run more workers, or give its tenant a larger weight."),
    Remedy.NEW_MESSAGE: lazy_gettext("Nothing. Send a new message if it is still wanted."),
    Remedy.CORRECTED_MESSAGE: lazy_gettext(
        "Nothing. If it is still wanted, correct the problem and send a new message."
    ),
    Remedy.ASK_RECIPIENT: lazy_gettext("Nothing. Ask the recipient, and send a new message if it did not arrive."),
    Remedy.OTHER_ADDRESS: (
        lazy_gettext("Send a new message to another address. If {recipient} is correct, reactivate it and then retry.")
    ),
    Remedy.ACTIVATE_ADDRESS: lazy_gettext("Reactivate {recipient} if it may receive email again."),
    Remedy.ACTIVATE_AND_RETRY: lazy_gettext(
        "Remove {recipient} from the suppression list if it may receive email, then retry."
    ),
    Remedy.RETRY: lazy_gettext("Retry it when the cause is fixed. The count of attempts then starts again."),
    Remedy.RETRY_AFTER_PAUSE: lazy_gettext(
        "Nothing. The recipient has paused bulk email. Retry it after the pause has ended."
    ),
    Remedy.RETRY_BELOW_CAP: (
        lazy_gettext(
            "Retry it when the recipient may receive another bulk email, or raise the frequency "
            "cap of the tenant first."
        )
    ),
    Remedy.RESOLVE: lazy_gettext("Wait for a report from the provider, or decide yourself: sent, resend or close."),
    Remedy.CANCEL: lazy_gettext("It cannot be sent earlier. You can cancel it."),
    Remedy.PROVIDER_RESPONSE: lazy_gettext("Wait for the provider's response."),
    Remedy.PROVIDER_RECOVERY: lazy_gettext("The provider must accept email again. Check its status."),
    Remedy.RESTORE_PROVIDER: (
        lazy_gettext(
            "Route the tenant to the provider again, or add it to MAILWRIGHT_ROUTE if it is one of "
            "the installation, or cancel the messages that wait for it."
        )
    ),
    Remedy.ROUTE_TO_PROVIDER: lazy_gettext(
        "Route tenant {tenant} to the provider again until it is sent, or cancel it."
    ),
    Remedy.FORMER_SERVER: (
        lazy_gettext(
            "Look for it in the log of the former server, or ask the recipient. Then cancel it, "
            "and send a new message if it did not arrive."
        )
    ),
    Remedy.MORE_QUOTA: lazy_gettext("Get more quota from the provider, then sync the quota."),
    Remedy.CHANGE_FREQUENCY_CAP: (
        lazy_gettext(
            "Raise the frequency cap of the tenant or turn it off, or let the campaign ignore it "
            "with a reason. Otherwise sending continues automatically."
        )
    ),
    Remedy.CHANGE_DOMAIN_LIMITS: lazy_gettext("Raise the limit in MAILWRIGHT_DOMAIN_LIMITS for later messages."),
    Remedy.START_CAMPAIGN: lazy_gettext("Start the campaign."),
    Remedy.RESUME_CAMPAIGN: lazy_gettext("Resume the campaign."),
    Remedy.RESUME_SEQUENCE: lazy_gettext("Resume the sequence."),
    Remedy.RESCHEDULE_CAMPAIGN: lazy_gettext("Change its send time, or cancel the campaign."),
    Remedy.SEND_OR_RESCHEDULE: lazy_gettext("Send it now, choose another send time, or cancel the campaign."),
    Remedy.CANCEL_CAMPAIGN: lazy_gettext("It cannot be sent earlier. You can cancel the campaign."),
    Remedy.PAUSE_CAMPAIGN_AHEAD: lazy_gettext("Pause campaign {campaign_ahead} to send this one first."),
    Remedy.PAUSE_AND_RESUME: lazy_gettext("Pause and then resume the campaign to end the deferral now."),
    Remedy.CHOOSE_WINNER: lazy_gettext("Choose the winner now, or wait for the result."),
    Remedy.CHOOSE_VARIANT: lazy_gettext("Choose the variant that all other recipients receive."),
    Remedy.RETRY_OR_ACCEPT_FAILURES: lazy_gettext("Retry the failed recipients, or accept the failures."),
    Remedy.MEET_SENDER_RULES: (
        lazy_gettext("Set up SPF, DKIM, DMARC, a public https URL and a postal address, or override the rules.")
    ),
    Remedy.CHECK_INCIDENTS: (
        lazy_gettext(
            "Find the cause: check where the addresses come from, and the content. Then resume or "
            "cancel the campaign. After a resume, only emails sent from then on count."
        )
    ),
    Remedy.ACCEPT_INCIDENTS: (
        lazy_gettext(
            "Pause the campaign and find the cause, or accept the incidents: then only emails sent from now on count."
        )
    ),
    Remedy.OPEN_WAVE: lazy_gettext("Open the next wave now, or wait. You can also pause or cancel the campaign."),
    Remedy.CHECK_AND_OPEN_WAVE: (
        lazy_gettext(
            "Find the cause: check where the addresses come from, and the content. Then open the "
            "next wave or cancel the campaign."
        )
    ),
    Remedy.REQUEST_APPROVAL: lazy_gettext("Check the plan, and request approval."),
    Remedy.APPROVE_CAMPAIGN: (
        lazy_gettext(
            "Another person who may start campaigns opens the plan in the dashboard, and approves or rejects it."
        )
    ),
    Remedy.RELEASE_SENDING: (
        lazy_gettext(
            "An operator reviews the quarantine, decides whether messages that were due are sent "
            "or stay unconfirmed, and then resumes sending."
        )
    ),
    Remedy.RESOLVE_MESSAGES: lazy_gettext(
        "Wait for reports from the provider, or decide yourself: sent, resend or close."
    ),
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
        return gettext("Change the limit.")
    text = _CHANGE_LIMIT.get(limit.name) or gettext("Raise the {limit}{of}.", limit=limit_name(limit.name), of="{of}")
    return text.format(of=_limit_owner(limit, getattr(explanation, "campaign", None)))


# Deferrals in lists and tables.


@dataclass(frozen=True, slots=True)
class DeferralLabel:
    """A deferral in a few words, and the preposition before the time at which it ends."""

    text: str
    preposition: str = lazy_gettext("until")


_AT: Final = lazy_pgettext("before a time", "at")
_DEFERRAL_LABELS: Final[Mapping[str, DeferralLabel]] = {
    "rate_per_second": DeferralLabel(lazy_gettext("Limit per second reached")),
    "rate_per_hour": DeferralLabel(lazy_gettext("Hourly limit reached")),
    "daily_limit": DeferralLabel(lazy_gettext("Daily limit reached")),
    "outside_hours": DeferralLabel(lazy_gettext("Outside working hours")),
    "warmup": DeferralLabel(lazy_gettext("Warm-up limit reached")),
    INTERVAL: DeferralLabel(lazy_gettext("Interval between messages, next one"), _AT),
    ONE_AT_A_TIME: DeferralLabel(lazy_gettext("One message at a time")),
    "max_in_flight": DeferralLabel(lazy_gettext("Limit of messages in flight reached")),
    "domain_limit": DeferralLabel(lazy_gettext("Domain limit reached")),
    DeferReason.FREQUENCY_CAP: DeferralLabel(lazy_gettext("Frequency cap reached")),
    DeferReason.SNOOZED: DeferralLabel(lazy_gettext("Paused by the recipient")),
    QUOTA_EXHAUSTED: DeferralLabel(lazy_gettext("Provider quota used up")),
    PROVIDER_RATE: DeferralLabel(lazy_gettext("Provider send rate reached")),
    PROVIDER_LIMIT: DeferralLabel(lazy_gettext("Limit of the provider reached")),
    DeferReason.PROVIDER_UNAVAILABLE: DeferralLabel(lazy_gettext("Provider unavailable, next attempt"), _AT),
    DeferReason.PROVIDER_THROTTLED: DeferralLabel(lazy_gettext("Slowed down by the provider")),
    DeferReason.PROVIDER_MISSING: DeferralLabel(lazy_gettext("Provider no longer configured")),
    DeferReason.RESEND_TURN: DeferralLabel(lazy_gettext("Waiting to be sent again")),
    RETRY_SCHEDULED: DeferralLabel(lazy_gettext("Next attempt"), _AT),
    IN_LINE: DeferralLabel(lazy_gettext("Queued behind other emails")),
    QUEUED: DeferralLabel(lazy_gettext("Queued behind another campaign")),
    NO_WORKER: DeferralLabel(lazy_gettext("No worker is running")),
    ENQUEUE_FAILED: DeferralLabel(lazy_gettext("Its messages could not be created, next attempt"), _AT),
    PAUSED: DeferralLabel(lazy_gettext("Paused")),
    CANCELLED: DeferralLabel(lazy_gettext("Cancelled")),
    SCHEDULED: DeferralLabel(lazy_gettext("Scheduled"), lazy_gettext("for")),
    SCHEDULE_OVERDUE: DeferralLabel(lazy_gettext("Held: the send time has passed")),
    AWAITING_WINNER: DeferralLabel(lazy_gettext("A/B test running")),
    UNDECIDED: DeferralLabel(lazy_gettext("A/B test undecided: choose a variant")),
    SENDER_RULES: DeferralLabel(lazy_gettext("Sender rules not met, next check"), _AT),
    GUARD_RAILS: DeferralLabel(lazy_gettext("Stopped by guard rails")),
    AWAITS_APPROVAL: DeferralLabel(lazy_gettext("Waits for the approval of a second person")),
    NEXT_WAVE: DeferralLabel(lazy_gettext("Watching this wave; the next one opens"), _AT),
    HoldReason.RESTORED: DeferralLabel(lazy_gettext("All sending is on hold: database restored")),
    HoldReason.REPLACED: DeferralLabel(lazy_gettext("All sending is on hold: database replaced")),
    HoldReason.UNMARKED: DeferralLabel(lazy_gettext("All sending is on hold: database without a marker")),
    HoldReason.REPORTED: DeferralLabel(lazy_gettext("All sending is on hold: unknown messages reported")),
    HoldReason.FAILED_OVER: DeferralLabel(lazy_gettext("Sending resumes soon: database failed over")),
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
        lazy_gettext(
            "Assumes that nothing else is sent in the meantime, limits do not change, and "
            "providers accept every message."
        )
    ),
    ForecastAssumption.PROVIDER_RECOVERS: lazy_gettext("The provider accepts email again at the next attempt."),
    ForecastAssumption.ASSUMED_RATE: (
        lazy_gettext("The send rate is not measured yet, so the forecast assumes {rate} messages per second.")
    ),
    ForecastAssumption.SENDING_HELD: lazy_gettext("All sending is on hold until an operator resumes it."),
    ForecastAssumption.NO_WORKER: lazy_gettext("No worker is running. The times assume that one starts now."),
    ForecastAssumption.WORKER_LOST: (
        lazy_gettext(
            "A worker stopped while it held messages. Others take them over when its leases end, within 30 seconds."
        )
    ),
    ForecastAssumption.LAST_RATE: lazy_gettext("Messages are sent at the highest rate of the last days."),
    ForecastAssumption.ONE_AT_A_TIME_RATE: (
        lazy_gettext("Messages that are sent one at a time take {seconds} seconds each.")
    ),
    ForecastAssumption.LEARNED_RATE: lazy_gettext(
        "The provider throttles, and keeps accepting as many messages as it does now."
    ),
    ForecastAssumption.HOURLY_QUOTA: lazy_gettext("The providers' hourly quota is renewed at every full hour."),
    ForecastAssumption.DAILY_QUOTA: lazy_gettext("The providers' quota is renewed a day after they reported it."),
    ForecastAssumption.NO_MORE_QUOTA: (
        lazy_gettext("The providers' quota is not renewed, because they do not report when it will be.")
    ),
}


def assumption_text(assumption: ForecastAssumption) -> str:
    return _ASSUMPTIONS[assumption].format(rate=f"{ASSUMED_RATE:g}", seconds=f"{1 / ONE_AT_A_TIME_RATE:g}")


def bulk_limit_text(limit: BulkLimit) -> str:
    """Return a sentence: `Hourly limit: 90 of 100 for bulk, 10 kept for transactional email.`"""
    if limit.domain is None:
        name = limit_name(limit.name)
    elif limit.domain == OTHERS:
        name = gettext("limit per second of each other domain")
    else:
        name = gettext("limit per second of {domain}", domain=limit.domain)
    sentence = (
        gettext("{name}: {bulk} of {limit} for bulk, {reserved} kept for transactional email.")
        if limit.reserved
        else gettext("{name}: {limit}, all of it for bulk.")
    )
    return sentence.format(
        name=f"{name[:1].upper()}{name[1:]}",
        bulk=number_text(limit.for_bulk),
        limit=number_text(limit.limit),
        reserved=number_text(limit.reserved),
    )


def included_texts(sequence_emails: int, occurrence_emails: int) -> list[str]:
    """Return a sentence with the number of other emails that a forecast includes.

    Estimates have two significant digits.
    """
    texts = []
    if sequence_emails:
        texts.append(
            ngettext(
                "Includes about {count} email of sequences.",
                "Includes about {count} emails of sequences.",
                _about(sequence_emails),
            )
        )
    if occurrence_emails:
        texts.append(
            ngettext(
                "Includes about {count} email of recurring campaigns.",
                "Includes about {count} emails of recurring campaigns.",
                _about(occurrence_emails),
            )
        )
    return texts


def _about(number: int) -> int:
    return round(number, min(0, 2 - len(str(number))))


def _is_are(number: int) -> str:
    return "is" if number == 1 else "are"
