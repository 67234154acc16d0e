"""Explaining: why a message is not sent yet, which rule holds it, until when, and what would change that.

The same answer in two forms: one sentence for a person, and the fields that it was made of for a program. What a
program can do about it is named as kinds, and only those that would be accepted now.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from mailwright.domain.actions import Action, ActionKind, campaign_actions
from mailwright.domain.address import domain_of
from mailwright.domain.campaign import AWAITING_WINNER, CANCELLED, PAUSED, SCHEDULED, CampaignStatus
from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Clock, Instant, isoformat
from mailwright.domain.errors import NotFound
from mailwright.domain.ids import is_uuid
from mailwright.domain.permits import PROVIDER_RATE, QUOTA_EXHAUSTED, DeferReason, split_defer_reason
from mailwright.domain.retry import POLICIES, STANDARD
from mailwright.domain.states import CLAIMABLE, OnDoubt, Resolution, Status
from mailwright.outbox.in_doubt import RESOLUTION_PERIOD
from mailwright.outbox.tenants import DEFAULT
from mailwright.outbox.workers import WorkerPresence, list_present
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement

EXPLAIN_MESSAGE = statement(__package__, "explain_message")
EXPLAIN_PLACE = statement(__package__, "explain_place")

# The scope of a suppression that stops every mail to its address.
ALL_MAIL = "*"
# How a contact stands whose mail came back.
BOUNCED = "bounced"
# A place in line beyond this is told as "more than".
FURTHEST_PLACE = 1_000


class ExplanationState(StrEnum):
    """Every answer that there is to "why is it not sent yet"."""

    SENT = "sent"
    FAILED = "failed"
    CANCELLED = "cancelled"
    CLOSED_UNKNOWN = "closed_unknown"
    IN_DOUBT = "in_doubt"
    SENDING = "sending"
    WORKER_LOST = "worker_lost"
    CLAIMED = "claimed"
    SCHEDULED = "scheduled"
    RETRYING = "retrying"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    PROVIDER_MISSING = "provider_missing"
    THROTTLED = "throttled"
    DOMAIN_LIMIT = "domain_limit"
    TENANT_BUSY = "tenant_busy"
    HELD = "held"
    EXPIRED = "expired"
    NO_WORKER = "no_worker"
    SUSPECT = "suspect"
    IN_LINE = "in_line"


@dataclass(frozen=True, slots=True)
class MessageExplanation:
    outbox_id: str
    sentence: str
    state: ExplanationState
    reason: str | None = None  # the rule's or the error's own name, for programs
    until: Instant | None = None
    what_would_change: str | None = None
    detail: str | None = None  # which of a reason's kinds it is, where it has several
    actions: tuple[Action, ...] = ()  # what can be done about it now

    def as_dict(self) -> dict[str, str | None]:
        return {
            "outboxId": self.outbox_id,
            "sentence": self.sentence,
            "state": self.state,
            "reason": self.reason,
            "detail": self.detail,
            "until": isoformat(self.until),
            "whatWouldChange": self.what_would_change,
        }


@dataclass(frozen=True, slots=True)
class MessageFacts:
    """All that an explanation is made from."""

    message: Any
    now: Instant
    workers: list[WorkerPresence]
    ahead: int

    def at(self, instant: Instant) -> str:
        return at_moment(instant, self.now)

    def until(self, instant: Instant) -> str:
        return moment(instant, self.now)


async def explain(database: Database, clock: Clock, outbox_id: str, *, tenant_id: int | None) -> MessageExplanation:
    """Another tenant's message is not found, like one that never was. None is an operator, who sees all tenants'."""
    if not is_uuid(outbox_id):
        raise NotFound
    now = clock.now()
    async with database.read() as tx:
        rows = await tx.run(EXPLAIN_MESSAGE, outbox_id=outbox_id, tenant_id=tenant_id, now=now)
        if not rows:
            raise NotFound
        ahead = await _ahead(tx, rows[0], now)
    return explanation(MessageFacts(rows[0], now, await list_present(database, now), ahead))


async def _ahead(tx: Transaction, message: Any, now: Instant) -> int:
    if message.claimable_at > now or Status(message.status) not in (Status.PENDING, Status.RETRY_SCHEDULED):
        return 0
    place = await tx.run(
        EXPLAIN_PLACE,
        lane=message.lane,
        claimable_at=message.claimable_at,
        message_key=message.id,
        limit=FURTHEST_PLACE + 1,
    )
    return int(place[0].ahead)


def explanation(facts: MessageFacts) -> MessageExplanation:
    """The rules, apart from the database: the first that applies is the one that the message waits for."""
    match Status(facts.message.status):
        case Status.PENDING | Status.RETRY_SCHEDULED:
            return _not_yet_due(facts) if facts.message.claimable_at > facts.now else _due(facts)
        case Status.SENT_ATTEMPT:
            return _being_sent(facts)
        case Status.IN_DOUBT:
            return _in_doubt(facts)
        case Status.SENT | Status.FAILED | Status.CANCELLED | Status.CLOSED_UNKNOWN as final:
            return _final(facts, final)


# What waits no longer.


def _final(facts: MessageFacts, status: Status) -> MessageExplanation:
    message = facts.message
    match status:
        case Status.SENT:
            when = f" {facts.at(message.sent_at)}" if message.sent_at else ""
            by = f" by {message.provider}" if message.provider else ""
            return _answer(
                facts,
                ExplanationState.SENT,
                f"It is not waiting: it was sent{by}{when}{_came_back(message)}.",
                reason=message.came_back,
                change=_take_back(message) if message.came_back and _is_suppressed(message) else None,
                actions=_lift(message) if message.came_back else (),
            )
        case Status.CANCELLED:
            return _answer(
                facts,
                ExplanationState.CANCELLED,
                "It is not waiting: it was cancelled before it was sent.",
                change="Nothing; send it again as a new message if it is still wanted.",
            )
        case Status.CLOSED_UNKNOWN:
            return _answer(
                facts,
                ExplanationState.CLOSED_UNKNOWN,
                "It is not waiting: nobody could tell whether the provider had it, so it was closed as unknown.",
                reason=message.error_code,
                change="Nothing; ask the recipient, and send it anew if it did not arrive.",
            )
        case _:
            return _failed(facts)


_CAME_BACK: Mapping[str, str] = {
    "hard_bounce": "bounced for good",
    "soft_bounce": "bounced for now",
    "bounce": "bounced, which is not held against its address",
    "complaint": "its reader called it spam",
}


def _came_back(message: Any) -> str:
    """What was reported of it later, and what that means for the next mail."""
    if message.came_back is None:
        return ""
    follows = f"; no more mail goes to {message.to_email}" if _is_suppressed(message) else ""
    return f", and {_CAME_BACK[message.came_back]}{follows}"


def _take_back(message: Any) -> str:
    return f"If mail may go there again, {_activate(message)}."


def _is_suppressed(message: Any) -> bool:
    """No mail at all goes to its address."""
    return bool(message.stopped_by == ALL_MAIL)


def _lift(message: Any) -> tuple[Action, ...]:
    """Nobody is offered to undo that a reader left bulk mail or a list: that is the reader's own."""
    if not _is_suppressed(message):
        return ()
    return (
        Action(
            ActionKind.ACTIVATE if message.contact_status == BOUNCED else ActionKind.LIFT_SUPPRESSION, message.to_email
        ),
    )


def _activate(message: Any) -> str:
    """Somebody who is not known here is only suppressed."""
    lift = "suppressions remove" if message.contact_status is None else "contacts activate"
    tenant = "" if message.tenant == DEFAULT else f" --tenant {message.tenant}"
    return f"`mailwright {lift} {message.to_email}{tenant}`"


def _failed(facts: MessageFacts) -> MessageExplanation:
    message = facts.message
    when = f" {facts.at(message.failed_at)}" if message.failed_at else ""
    return _answer(
        facts,
        ExplanationState.FAILED,
        f"It is not waiting: it failed{when} with {_error(message)}{_came_back(message)}.",
        reason=message.error_code,
        change=_way_back(message),
        actions=_acts_of_failed(facts),
    )


# What is wrong with the message itself, which is never changed, or was true for a time only.
_FOR_GOOD = frozenset(
    {"INVALID_PAYLOAD", "INVALID_EMAIL", "INVALID_TEMPLATE", "OUTBOX_NOT_FOUND", "RECIPIENT_NOT_FOUND", "EXPIRED"}
)


def _way_back(message: Any) -> str:
    """What helps: never a retry that would fail as before."""
    retry = f"`mailwright message retry {message.outbox_id}`"
    if message.error_code in _FOR_GOOD:
        return "Nothing; if it is still wanted, send it as a new message with that mended."
    if not _is_suppressed(message) and message.error_code != "RECIPIENT_SUPPRESSED":
        return f"Once the cause is gone, {retry} gives it all its attempts again."
    if message.came_back == "hard_bounce":
        return (
            f"Another address, in a new message. If {message.to_email} is right after all, {_activate(message)}, "
            f"then {retry}."
        )
    lift = f": {_activate(message)}" if _is_suppressed(message) else ""
    return f"Take the address off the suppression list if that is right{lift}, then {retry}."


def _acts_of_failed(facts: MessageFacts) -> tuple[Action, ...]:
    """What is suppressed is lifted first: a retry before that would fail as before."""
    message = facts.message
    if message.error_code in _FOR_GOOD or not _may_go(facts):
        return ()
    return _lift(message) if message.stopped_by is not None else (Action(ActionKind.RETRY, message.outbox_id),)


# What is with a provider, or was.


def _being_sent(facts: MessageFacts) -> MessageExplanation:
    message, worker = facts.message, facts.message.locked_by
    if message.claimable_at <= facts.now:
        return _answer(
            facts,
            ExplanationState.WORKER_LOST,
            f"The worker {worker} ended while it was sending this; the next worker records it as in doubt.",
            reason="WORKER_LOST",
            change=_start_worker(facts) or "Nothing is needed: a running worker does it within a second.",
        )
    return _answer(
        facts,
        ExplanationState.SENDING,
        f"It is being sent right now: the worker {worker} handed it to the provider {facts.at(message.attempted_at)}.",
        until=message.claimable_at,
        change="The provider's answer.",
    )


def _in_doubt(facts: MessageFacts) -> MessageExplanation:
    message = facts.message
    will_resend = message.on_doubt == OnDoubt.RESEND and message.resends == 0 and not _is_expired(facts)
    decided_at = message.claimable_at if will_resend else message.doubted_at + RESOLUTION_PERIOD
    next_step = "sent once more, with the same Message-ID," if will_resend else "closed as unknown"
    return _answer(
        facts,
        ExplanationState.IN_DOUBT,
        f"It is in doubt whether the provider has it ({_error(message)}); "
        f"if no report comes, it is {next_step} {facts.at(decided_at)}.",
        reason=message.error_code,
        until=decided_at,
        change=f"A report from the provider, or your own word: "
        f"`mailwright message resolve {message.outbox_id} --as sent|resend|close`.",
        actions=_resolve(facts),
    )


def _resolve(facts: MessageFacts) -> tuple[Action, ...]:
    words = [each for each in Resolution if _may_go(facts) or each is not Resolution.RESEND]
    return tuple(Action(ActionKind.RESOLVE, facts.message.outbox_id, {"as": each}) for each in words)


# What waits for a moment.


def _not_yet_due(facts: MessageFacts) -> MessageExplanation:
    message = facts.message
    if message.locked_by is not None:
        return _claimed(facts)
    if message.defer_reason in _DEFERRED:
        return _DEFERRED[message.defer_reason](facts)
    if message.scheduled_at is not None and message.scheduled_at > facts.now:
        return _answer(
            facts,
            ExplanationState.SCHEDULED,
            f"It is scheduled: it goes {facts.at(message.scheduled_at)}, as its sender asked.",
            reason="scheduled_at",
            until=message.scheduled_at,
            change=_cancel(message),
        )
    if message.next_attempt_at is not None and message.next_attempt_at > facts.now:
        return _retrying(facts)
    return _tenant_busy(facts)


def _claimed(facts: MessageFacts) -> MessageExplanation:
    message = facts.message
    return _answer(
        facts,
        ExplanationState.CLAIMED,
        f"The worker {message.locked_by} has it and sends it next; should that worker be gone, "
        f"another takes it {facts.at(message.claimable_at)}.",
        reason=message.locked_by,
        until=message.claimable_at,
        change=_cancel(message),
    )


def _provider_deferred(facts: MessageFacts, state: ExplanationState, what: str) -> MessageExplanation:
    message = facts.message
    provider = f"The provider {message.provider}" if message.provider else "The provider"
    return _answer(
        facts,
        state,
        f"{provider} {what} ({_error(message)}); it is tried again {facts.at(message.claimable_at)}, "
        f"and this does not count as an attempt.",
        reason=message.error_code,
        until=message.claimable_at,
        change="The provider taking mail again: `mailwright check` tells whether it does.",
    )


def _provider_missing(facts: MessageFacts) -> MessageExplanation:
    message = facts.message
    return _answer(
        facts,
        ExplanationState.PROVIDER_MISSING,
        f"The provider {message.provider} may already have it, so no other is handed it, and no worker has that "
        f"provider any more; it is looked at again {facts.at(message.claimable_at)}.",
        reason=message.defer_reason,
        until=message.claimable_at,
        change=f"{message.provider} in MAILWRIGHT_ROUTE again, or `mailwright message cancel {message.outbox_id}`.",
    )


_DOMAIN_RULES = {
    DeferReason.DOMAIN_RATE: "has had as many mails as MAILWRIGHT_DOMAIN_LIMITS allows for now",
    DeferReason.DOMAIN_CONCURRENCY: "has as many mails under way as MAILWRIGHT_DOMAIN_LIMITS allows at once",
}


def _domain_limit(facts: MessageFacts) -> MessageExplanation:
    message = facts.message
    rule = _DOMAIN_RULES[DeferReason(message.defer_reason)]
    return _answer(
        facts,
        ExplanationState.DOMAIN_LIMIT,
        f"The domain {domain_of(message.to_email)} {rule}; its place in that line comes "
        f"{facts.at(message.claimable_at)}, and this does not count as an attempt.",
        reason=message.defer_reason,
        until=message.claimable_at,
        change=_start_worker(facts) or "That moment; for later mail, a higher limit in MAILWRIGHT_DOMAIN_LIMITS.",
    )


def _resend_turn(facts: MessageFacts) -> MessageExplanation:
    return _answer(
        facts,
        ExplanationState.IN_LINE,
        f"It was in doubt and is sent once more; such mails go one at a time, and its turn is looked for "
        f"{facts.at(facts.message.claimable_at)}.",
        reason=facts.message.defer_reason,
        until=facts.message.claimable_at,
        change=_cancel(facts.message),
    )


def _one_at_a_time(facts: MessageFacts) -> MessageExplanation:
    return _answer(
        facts,
        ExplanationState.IN_LINE,
        f"Its mails go one at a time, and another of them is under way; it is looked at again "
        f"{facts.at(facts.message.claimable_at)}.",
        reason=facts.message.defer_reason,
        until=facts.message.claimable_at,
        change="The end of the one before.",
    )


def _readers_hours(facts: MessageFacts) -> MessageExplanation:
    message = facts.message
    return _answer(
        facts,
        ExplanationState.HELD,
        f"It is outside working hours by its reader's own clock; it goes {facts.at(message.claimable_at)}.",
        reason=message.defer_reason,
        until=message.claimable_at,
        change=_start_worker(facts) or _cancel(message),
    )


def _retrying(facts: MessageFacts) -> MessageExplanation:
    message = facts.message
    policy = POLICIES.get(message.retry_policy, STANDARD)
    return _answer(
        facts,
        ExplanationState.RETRYING,
        f"Attempt {message.attempts} failed with {_error(message)}; "
        f"attempt {message.attempts + 1} of {policy.max_attempts} follows {facts.at(message.next_attempt_at)}.",
        reason=message.error_code,
        until=message.next_attempt_at,
        change=_cancel(message),
    )


def _tenant_busy(facts: MessageFacts) -> MessageExplanation:
    message = facts.message
    return _answer(
        facts,
        ExplanationState.TENANT_BUSY,
        f"The tenant {message.tenant} has as many mails under way as its limit allows; "
        f"it is looked at again {facts.at(message.claimable_at)}.",
        reason="max_in_flight",
        until=message.claimable_at,
        change=f"A higher limit: `mailwright tenant edit {message.tenant} --max-in-flight N`.",
    )


_DEFERRED: Mapping[str, Callable[[MessageFacts], MessageExplanation]] = {
    DeferReason.PROVIDER_UNAVAILABLE: lambda facts: _provider_deferred(
        facts, ExplanationState.PROVIDER_UNAVAILABLE, "does not take our mail"
    ),
    DeferReason.PROVIDER_THROTTLED: lambda facts: _provider_deferred(
        facts, ExplanationState.THROTTLED, "asked us to slow down"
    ),
    DeferReason.PROVIDER_MISSING: _provider_missing,
    DeferReason.DOMAIN_RATE: _domain_limit,
    DeferReason.DOMAIN_CONCURRENCY: _domain_limit,
    DeferReason.ONE_AT_A_TIME: _one_at_a_time,
    DeferReason.RESEND_TURN: _resend_turn,
    DeferReason.RECIPIENT_HOURS: _readers_hours,
}


# What is due.


def _due(facts: MessageFacts) -> MessageExplanation:
    message = facts.message
    if _is_expired(facts):
        return _answer(
            facts,
            ExplanationState.EXPIRED,
            f"It was of use until {facts.until(message.expires_at)} only; the next worker to look at it lets it fail.",
            reason="EXPIRED",
            change=_start_worker(facts) or "Nothing; send it again as a new message if it is still wanted.",
            actions=(),
        )
    if message.held_until is not None:
        return _held(facts)
    if not facts.workers:
        return _answer(
            facts,
            ExplanationState.NO_WORKER,
            "It is due, but no worker is running; start `mailwright worker`.",
            reason="no_worker",
            change=_start_worker(facts),
        )
    carriers = _carriers(facts)
    if carriers and all(_is_unavailable(carrier, facts.now) for carrier in carriers):
        return _provider_unavailable(facts, carriers)
    if message.locked_by is not None:
        return _suspect(facts)
    return _in_line(facts)


# The rules that hold whole lanes, in words that fit after "by".
RULES: Mapping[str, str] = {
    "rate_per_second": "the limit per second",
    "rate_per_hour": "the hourly limit",
    "daily_limit": "the daily limit",
    "outside_hours": "the working hours",
    "warmup": "the warm-up",
    "interval": "the interval between mails",
    "one_at_a_time": "the rule that mails go one at a time",
}
# What a person changes to let mail of such a rule go, as an option of `tenant set` and `campaign limits`.
OPTIONS: Mapping[str, str] = {
    "rate_per_second": "--rate-per-second N",
    "rate_per_hour": "--rate-per-hour N",
    "daily_limit": "--daily-limit N",
    "outside_hours": "--working-hours 00:00-24:00",
    "warmup": "--warmup-since none",
    "interval": "--interval-ms N",
    "one_at_a_time": "--one-at-a-time no",
}


def _held(facts: MessageFacts) -> MessageExplanation:
    message, reason = facts.message, facts.message.hold_reason
    if reason in _HELD_BY_OTHERS:
        return _HELD_BY_OTHERS[reason](facts)
    option = OPTIONS.get(reason, f"--{reason.replace('_', '-')} …")
    whose = f"the tenant {message.tenant}"
    change = f"That moment; for later mail, another limit: `mailwright tenant edit {message.tenant} {option}`."
    actions = _withdraw(message)
    if message.campaign is not None:
        whose = f"its campaign {message.campaign} or of {whose}"
        change = f"That moment, or another limit; `mailwright campaign explain {message.campaign_id}` tells which."
        actions = _ask_campaign(message)
    return _answer(
        facts,
        ExplanationState.HELD,
        f"It is held by {RULES.get(reason, reason)} of {whose} until {facts.until(message.held_until)}.",
        reason=reason,
        until=message.held_until,
        change=_start_worker(facts) or change,
        actions=actions,
    )


def _ask_campaign(message: Any) -> tuple[Action, ...]:
    """Whose limit it is, or which versions there are, the campaign's own explanation tells."""
    return (Action(ActionKind.EXPLAIN_CAMPAIGN, message.campaign_id), *_withdraw(message))


def _with_campaign(message: Any, kind: ActionKind) -> tuple[Action, ...]:
    return (*campaign_actions(message.campaign_id, message.campaign_status, kind), *_withdraw(message))


def _quota_used_up(facts: MessageFacts) -> MessageExplanation:
    return _answer(
        facts,
        ExplanationState.HELD,
        f"The providers have no quota left for it; they are asked again {facts.at(facts.message.held_until)}.",
        reason=facts.message.hold_reason,
        until=facts.message.held_until,
        change="More quota with the provider; `mailwright quota --sync` asks at once.",
    )


def _provider_rate(facts: MessageFacts) -> MessageExplanation:
    return _answer(
        facts,
        ExplanationState.HELD,
        f"The providers take only so many in a second; it is looked at again {facts.at(facts.message.held_until)}.",
        reason=facts.message.hold_reason,
        until=facts.message.held_until,
        change="Its turn; a higher rate with the provider brings it forward.",
    )


def _campaign_paused(facts: MessageFacts) -> MessageExplanation:
    return _answer(
        facts,
        ExplanationState.HELD,
        f"Its campaign {facts.message.campaign} is paused, until somebody resumes it.",
        reason=facts.message.hold_reason,
        change=f"`mailwright campaign resume {facts.message.campaign_id}`.",
        actions=_with_campaign(facts.message, ActionKind.RESUME_CAMPAIGN),
    )


def _campaign_cancelled(facts: MessageFacts) -> MessageExplanation:
    return _answer(
        facts,
        ExplanationState.HELD,
        f"Its campaign {facts.message.campaign} was cancelled; a worker cancels it in a moment.",
        reason=facts.message.hold_reason,
        change=_start_worker(facts) or "Nothing; it is not sent any more.",
        actions=(),
    )


def _campaign_scheduled(facts: MessageFacts) -> MessageExplanation:
    message = facts.message
    return _answer(
        facts,
        ExplanationState.SCHEDULED,
        f"Its campaign {message.campaign} is scheduled: it begins {facts.at(message.held_until)}.",
        reason=message.hold_reason,
        until=message.held_until,
        change=f"`mailwright campaign cancel {message.campaign_id}` withdraws it; nothing sends it earlier.",
        actions=_with_campaign(message, ActionKind.CANCEL_CAMPAIGN),
    )


def _waits_for_winner(facts: MessageFacts) -> MessageExplanation:
    message = facts.message
    return _answer(
        facts,
        ExplanationState.HELD,
        f"Its campaign {message.campaign} tries its versions on some readers first; the better one is chosen "
        f"{facts.at(message.held_until)}.",
        reason=message.hold_reason,
        until=message.held_until,
        change="That moment, or your own choice of the winner.",
        actions=_ask_campaign(message),
    )


_HELD_BY_OTHERS: Mapping[str, Callable[[MessageFacts], MessageExplanation]] = {
    QUOTA_EXHAUSTED: _quota_used_up,
    PROVIDER_RATE: _provider_rate,
    PAUSED: _campaign_paused,
    CANCELLED: _campaign_cancelled,
    SCHEDULED: _campaign_scheduled,
    AWAITING_WINNER: _waits_for_winner,
}


def _carriers(facts: MessageFacts) -> list[WorkerPresence]:
    """Who may be handed it: every provider of every worker, or the one that may have it already."""
    message = facts.message
    if (message.resends == 0 and message.doubted_at is None) or message.provider is None:
        return facts.workers
    return [presence for presence in facts.workers if presence.provider == message.provider]


def _provider_unavailable(facts: MessageFacts, carriers: list[WorkerPresence]) -> MessageExplanation:
    first = min(carriers, key=lambda worker: worker.unavailable_until or 0)
    until = first.unavailable_until or facts.now
    why = f" because {first.unavailable_reason.rstrip('.')}" if first.unavailable_reason else ""
    return _answer(
        facts,
        ExplanationState.PROVIDER_UNAVAILABLE,
        f"It is due, but the provider {first.provider} is left alone until {facts.until(until)}{why}.",
        reason="provider_unavailable",
        until=until,
        change="The provider taking mail again: `mailwright check` tells whether it does.",
    )


def _suspect(facts: MessageFacts) -> MessageExplanation:
    times = "once" if facts.message.claims == 1 else f"{facts.message.claims} times"
    return _answer(
        facts,
        ExplanationState.SUSPECT,
        f"It was taken by a worker {times} and no result came back, so the next worker handles it apart from others.",
        reason="claimed_without_result",
        change="Nothing is needed: a running worker does it within seconds.",
    )


def _in_line(facts: MessageFacts) -> MessageExplanation:
    if facts.ahead > FURTHEST_PLACE:
        place = f"more than {FURTHEST_PLACE:,} messages of its lane are due before it"
    elif facts.ahead:
        place = f"{facts.ahead:,} of its lane {'is' if facts.ahead == 1 else 'are'} due before it"
    else:
        place = "it is the next of its lane"
    if facts.message.goes_after is not None:
        place += f", and the campaign {facts.message.goes_after} goes before its own"
    return _answer(
        facts,
        ExplanationState.IN_LINE,
        f"It is due and in line: {place}.",
        reason="in_line",
        change="Its turn; more workers (`mailwright worker`) or a larger weight of its tenant bring it forward.",
    )


# Words.


def _answer(
    facts: MessageFacts,
    state: ExplanationState,
    sentence: str,
    *,
    reason: str | None = None,
    until: Instant | None = None,
    change: str | None = None,
    actions: tuple[Action, ...] | None = None,
) -> MessageExplanation:
    """What waits can be withdrawn, where nothing else is said."""
    name, detail = split_defer_reason(reason)
    actions = _withdraw(facts.message) if actions is None else actions
    return MessageExplanation(facts.message.outbox_id, sentence, state, name, until, change, detail, actions)


def _error(message: Any) -> str:
    """Without a full stop: it stands inside a sentence."""
    code = message.error_code or "an unknown error"
    return f"{code}: {message.error_reason.rstrip('.')}" if message.error_reason else str(code)


def _cancel(message: Any) -> str:
    return f"Nothing sends it earlier; `mailwright message cancel {message.outbox_id}` withdraws it."


def _withdraw(message: Any) -> tuple[Action, ...]:
    return (Action(ActionKind.CANCEL, message.outbox_id),) if message.status in CLAIMABLE else ()


def _start_worker(facts: MessageFacts) -> str | None:
    return None if facts.workers else "Start a worker: `mailwright worker`, or `mailwright serve`, which has one."


def _is_expired(facts: MessageFacts) -> bool:
    return facts.message.expires_at is not None and facts.message.expires_at <= facts.now


def _may_go(facts: MessageFacts) -> bool:
    """Whether it is still of use to anybody."""
    return not _is_expired(facts) and facts.message.campaign_status != CampaignStatus.CANCELLED


def _is_unavailable(worker: WorkerPresence, now: Instant) -> bool:
    return worker.unavailable_until is not None and worker.unavailable_until > now


def at_moment(instant: Instant, now: Instant) -> str:
    """`at 15:00:00 UTC (in 12 minutes)`"""
    day = "" if _is_same_day(instant, now) else f"on {_date(instant)} "
    return f"{day}at {_time(instant)} ({distance(instant, now)})"


def moment(instant: Instant, now: Instant) -> str:
    """`15:00:00 UTC (in 12 minutes)`"""
    day = "" if _is_same_day(instant, now) else f"{_date(instant)}, "
    return f"{day}{_time(instant)} ({distance(instant, now)})"


def distance(instant: Instant, now: Instant) -> str:
    """`in 12 minutes`, `3 days ago`"""
    if instant == now:
        return "now"
    return f"in {duration(instant - now)}" if instant > now else f"{duration(now - instant)} ago"


def duration(length: Instant) -> str:
    """In the largest unit of which there are two or more."""
    for unit, name in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (SECOND, "second")):
        if length >= 2 * unit or (length >= unit and unit == SECOND):
            count = round(length / unit)
            return f"{count} {_plural(count, name)}"
    return "less than a second"


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"


def _is_same_day(instant: Instant, now: Instant) -> bool:
    return instant // DAY == now // DAY


def _date(instant: Instant) -> str:
    return (isoformat(instant) or "")[:10]


def _time(instant: Instant) -> str:
    return f"{(isoformat(instant) or '')[11:19]} UTC"
