"""Explaining a campaign: why it is not sent yet, which rule, until when, what would change it, and what it then does.

The reason and its end are read where they were written; nobody computes another. Only whose rule it was is looked up.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import select

from mailwright.content.presend_checks import PresendContext as Known
from mailwright.content.template_store import TemplateStore
from mailwright.domain.actions import Action, ActionKind, campaign_actions, is_allowed
from mailwright.domain.campaign import AWAITING_WINNER, PAUSED, SCHEDULED, CampaignStatus
from mailwright.domain.clock import Clock, Instant, isoformat
from mailwright.domain.errors import NotFound
from mailwright.domain.ids import is_uuid
from mailwright.domain.permits import (
    PROVIDER_RATE,
    QUOTA_EXHAUSTED,
    Deferral,
    DeferReason,
    LimitLevel,
    split_defer_reason,
)
from mailwright.outbox.explain import OPTIONS, RULES, at_moment, moment
from mailwright.outbox.ledger import LOOK_AT_COUNTERS
from mailwright.outbox.limits import DefaultLimits, load_limit_rules
from mailwright.outbox.workers import WorkerPresence, list_present
from mailwright.policies.hours import ALWAYS, outside_hours
from mailwright.policies.pacing import ONE_AT_A_TIME, send_rates
from mailwright.policies.rates import windows
from mailwright.sources.campaigns.deferrals import RETRY_SCHEDULED, load_lane_deferrals
from mailwright.sources.campaigns.definition import CampaignDefinition, CampaignLimits
from mailwright.sources.campaigns.entries import CampaignSnapshot
from mailwright.sources.campaigns.forecast import forecast
from mailwright.sources.campaigns.simulation import CampaignForecast
from mailwright.sources.campaigns.snapshot import NO_FACTS, check_campaign
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import campaigns, lane_deferrals, queue_entries, tenants

COUNT_LANE = statement(__package__, "count_lane")


@dataclass(frozen=True, slots=True)
class CampaignExplanation:
    campaign_id: str
    sentence: str
    state: str
    reason: str | None = None  # the rule's own name, for programs
    until: Instant | None = None
    what_would_change: str | None = None
    then: str | None = None  # what it does once it may
    detail: str | None = None  # which of a reason's kinds it is, where it has several
    actions: tuple[Action, ...] = ()  # what can be done about it now

    def as_dict(self) -> dict[str, str | None]:
        return {
            "campaignId": self.campaign_id,
            "sentence": self.sentence,
            "state": self.state,
            "reason": self.reason,
            "detail": self.detail,
            "until": isoformat(self.until),
            "whatWouldChange": self.what_would_change,
            "then": self.then,
        }


@dataclass(frozen=True, slots=True)
class CampaignFacts:
    """All that an explanation is made from."""

    campaign: Any  # its row, with its place in line and its hold where it has them
    counts: Any  # None before it has a place
    now: Instant
    workers: list[WorkerPresence]
    goes_after: Any  # the campaign of the same tenant that is before it: its id, name and status, or None
    holder: LimitLevel | None  # whose rule holds it: its own or its tenant's
    course: CampaignForecast | None
    wait: Deferral | None = None  # what its mails wait for where nothing holds it as a whole
    may_start: bool = False  # a draft that was examined, and with which nothing is wrong

    @property
    def left(self) -> int:
        return 0 if self.counts is None else int(self.counts.waiting + self.counts.sending)


async def explain_campaign(
    database: Database,
    clock: Clock,
    defaults: DefaultLimits,
    campaign_id: str,
    *,
    tenant_id: int | None,
    foreseen: Sequence[CampaignForecast] | None = None,
    store: TemplateStore | None = None,
    known: Known = NO_FACTS,
) -> CampaignExplanation:
    """Another tenant's campaign is not found, like one that never was. None is an operator, who sees all tenants'.
    Whoever has a forecast already gives its courses: it is not made twice. Whoever wants to know whether a draft may
    start gives the templates, and what is known besides: it is examined then."""
    if not is_uuid(campaign_id):
        raise NotFound
    now = clock.now()
    rules = await load_limit_rules(database, defaults)
    async with database.read() as tx:
        row = await _row(tx, campaign_id, tenant_id, now)
        is_in_line = row.lane is not None and row.completed_at is None
        counts = None if row.lane is None else (await tx.run(COUNT_LANE, lane=row.lane))[0]
        waiting = await load_lane_deferrals(tx, now)
        goes_after = await _goes_after(tx, row, now, waiting) if is_in_line else None
        levels = rules.levels(row.tenant_id, row.lane or 0)
        holder = await _holder(tx, levels, row.defer_reason, now) if row.deferred_until is not None else None
    course = None
    if is_in_line:
        if foreseen is None:
            foreseen = (await forecast(database, clock, defaults, tenant_id=row.tenant_id)).campaigns
        course = next((each for each in foreseen if each.campaign_id == campaign_id), None)
    may_start = False
    if store is not None and row.status == CampaignStatus.DRAFT:
        definition = CampaignDefinition.model_validate(orjson.loads(row.definition))
        examined = await check_campaign(database, store, definition, tenant_id=row.tenant_id, now=now, facts=known)
        may_start = not examined.problems
    workers = await list_present(database, now)
    wait = waiting.get(row.lane)
    return explanation(CampaignFacts(row, counts, now, workers, goes_after, holder, course, wait, may_start))


def explanation(facts: CampaignFacts) -> CampaignExplanation:
    """The rules, apart from the database: the first that applies is the one that the campaign waits for."""
    campaign = facts.campaign
    match CampaignStatus(campaign.status):
        case CampaignStatus.DRAFT:
            start = f"`mailwright campaign start {campaign.campaign_id}`."
            next_step = ActionKind.START_CAMPAIGN if facts.may_start else ActionKind.PREFLIGHT_CAMPAIGN
            return _answer(
                facts, "draft", "It is a draft: nobody has started it.", change=start, actions=_acts(facts, next_step)
            )
        case CampaignStatus.SENT:
            when = f" It ended {at_moment(campaign.finished_at, facts.now)}." if campaign.finished_at else ""
            return _answer(facts, "sent", f"It is not waiting: it was sent.{when}")
        case CampaignStatus.CANCELLED:
            return _cancelled(facts)
        case CampaignStatus.READY | CampaignStatus.SENDING | CampaignStatus.PAUSED:
            return _unfinished(facts)


def _unfinished(facts: CampaignFacts) -> CampaignExplanation:
    campaign = facts.campaign
    if campaign.completed_at is not None:
        return _through(facts)
    if campaign.deferred_until is not None:
        return _HELD.get(campaign.defer_reason, _held)(facts)
    if facts.wait is not None:
        return _mails_wait(facts, facts.wait)
    if not facts.workers:
        return _answer(
            facts,
            "no_worker",
            "It may be sent, but no worker is running.",
            reason="no_worker",
            change="Start a worker: `mailwright worker`, or `mailwright serve`, which has one.",
        )
    if facts.goes_after is not None:
        return _answer(
            facts,
            "in_line",
            f"It is in line: the campaign {facts.goes_after.name} of the same tenant goes first.",
            reason="in_line",
            until=facts.course.starts_at if facts.course else None,
            change="Its turn; a pause of the campaigns before it brings it forward.",
            actions=campaign_actions(facts.goes_after.campaign_id, facts.goes_after.status, ActionKind.PAUSE_CAMPAIGN),
        )
    return _answer(facts, "sending", f"It is being sent: {_mails(facts.left)} left.")


def _through(facts: CampaignFacts) -> CampaignExplanation:
    """Nothing waits any more, and still it is not sent: some did not get it, or nobody knows whether they did."""
    counts, campaign_id = facts.counts, facts.campaign.campaign_id
    if counts.failed:
        return _answer(
            facts,
            "failures",
            f"It is through, but {counts.failed:,} of its readers did not get it.",
            reason="failures",
            change=f"`mailwright campaign retry-failed {campaign_id}` tries them again, "
            f"`mailwright campaign accept-failures {campaign_id}` ends it.",
            actions=_acts(facts, ActionKind.RESUME_CAMPAIGN, ActionKind.RETRY_FAILED, ActionKind.ACCEPT_FAILURES),
        )
    return _answer(
        facts,
        "in_doubt",
        f"It is through, but of {_mails(counts.in_doubt)} nobody knows yet whether the provider has them.",
        reason="in_doubt",
        change="The provider's reports, or your own word: `mailwright message resolve`.",
        actions=_acts(facts, ActionKind.FIND_DOUBTS),
    )


def _cancelled(facts: CampaignFacts) -> CampaignExplanation:
    sentence = "It is not waiting: it was cancelled, and what had not been sent is not sent any more."
    if facts.counts is None or not facts.counts.in_doubt:
        return _answer(facts, "cancelled", sentence)
    return _answer(
        facts,
        "cancelled",
        f"{sentence} Of {_mails(facts.counts.in_doubt)} nobody knows yet whether the provider has them.",
        reason="in_doubt",
        change="The provider's reports, or your own word: `mailwright message resolve ID --as sent|close`.",
        actions=_acts(facts, ActionKind.FIND_DOUBTS),
    )


def _held(facts: CampaignFacts) -> CampaignExplanation:
    campaign, reason = facts.campaign, facts.campaign.defer_reason
    if facts.holder is None:
        return _held_by_the_past(facts)
    is_own = facts.holder.owner.startswith("campaign-")
    whose = "its own" if is_own else f"the tenant {campaign.tenant}'s"
    rule = RULES.get(reason, reason).removeprefix("the ")
    option = OPTIONS.get(reason, "…")
    where = f"campaign limits {campaign.campaign_id}" if is_own else f"tenant set {campaign.tenant} {option}"
    return _answer(
        facts,
        "held",
        f"It is held by {whose} {rule} until {moment(campaign.deferred_until, facts.now)}.",
        reason=reason,
        until=campaign.deferred_until,
        change=f"That moment, or another limit: `mailwright {where}`.",
        actions=_without_rule(facts, reason) if is_own else (),
    )


# What makes each rule in a campaign's own limits, as people write them down.
_LIMITS: Mapping[str, str] = {
    "rate_per_second": "ratePerSecond",
    "rate_per_hour": "ratePerHour",
    "daily_limit": "dailyLimit",
    "outside_hours": "workingHours",
    "warmup": "warmup",
    "interval": "intervalMs",
    ONE_AT_A_TIME: "oneAtATime",
}


def _without_rule(facts: CampaignFacts, reason: str) -> tuple[Action, ...]:
    """All its own limits but the one that holds it."""
    limits = CampaignLimits.model_validate_json(facts.campaign.limits)
    written = limits.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if written.pop(_LIMITS.get(reason, ""), None) is None or not _may(facts, ActionKind.EDIT_LIMITS):
        return ()
    return (Action(ActionKind.EDIT_LIMITS, facts.campaign.campaign_id, written),)


def _held_by_the_past(facts: CampaignFacts) -> CampaignExplanation:
    campaign, reason = facts.campaign, facts.campaign.defer_reason
    return _answer(
        facts,
        "held",
        f"It was held by {RULES.get(reason, reason)}, which is in force no more; it waits until "
        f"{moment(campaign.deferred_until, facts.now)} all the same.",
        reason=reason,
        until=campaign.deferred_until,
        change=f"That moment; `mailwright campaign pause {campaign.campaign_id}` and then `resume` ends the wait.",
        actions=_acts(facts, ActionKind.PAUSE_CAMPAIGN),
    )


def _quota_used_up(facts: CampaignFacts) -> CampaignExplanation:
    until = facts.campaign.deferred_until
    return _answer(
        facts,
        "held",
        f"The providers have no quota left; they are asked again {at_moment(until, facts.now)}.",
        reason=QUOTA_EXHAUSTED,
        until=until,
        change="More quota with the provider; `mailwright quota --sync` asks at once.",
    )


def _provider_rate(facts: CampaignFacts) -> CampaignExplanation:
    until = facts.campaign.deferred_until
    return _answer(
        facts,
        "held",
        f"The providers take only so many mails in a second: {_mails(facts.left)} left, the next are looked at "
        f"{at_moment(until, facts.now)}.",
        reason=PROVIDER_RATE,
        until=until,
        change="A higher rate with the provider; `mailwright quota` tells what it says.",
    )


def _paused(facts: CampaignFacts) -> CampaignExplanation:
    resume = f"`mailwright campaign resume {facts.campaign.campaign_id}`."
    actions = _acts(facts, ActionKind.RESUME_CAMPAIGN)
    sentence = "It is paused, and keeps its place in line."
    return _answer(facts, "paused", sentence, reason=PAUSED, change=resume, actions=actions)


def _scheduled(facts: CampaignFacts) -> CampaignExplanation:
    until = facts.campaign.deferred_until
    sentence = f"It is scheduled: it begins {at_moment(until, facts.now)}."
    cancel = f"`mailwright campaign cancel {facts.campaign.campaign_id}` withdraws it; nothing sends it earlier."
    actions = _acts(facts, ActionKind.CANCEL_CAMPAIGN)
    return _answer(facts, "scheduled", sentence, reason=SCHEDULED, until=until, change=cancel, actions=actions)


def _waits_for_winner(facts: CampaignFacts) -> CampaignExplanation:
    until = facts.campaign.deferred_until
    sentence = (
        f"It was tried on a part of its readers; the better version is chosen {at_moment(until, facts.now)} and then "
        "goes to everyone else."
    )
    change = "That moment, or your own choice of the winner."
    actions = _winners(facts)
    return _answer(facts, "held", sentence, reason=AWAITING_WINNER, until=until, change=change, actions=actions)


def _winners(facts: CampaignFacts) -> tuple[Action, ...]:
    """Each version may be the one."""
    campaign = facts.campaign
    content = CampaignSnapshot.read(campaign.content)
    if content.ab_test is None or campaign.walk_ended_at is None or not _may(facts, ActionKind.CHOOSE_WINNER):
        return ()
    names = [each.name for each in content.variants]
    return tuple(Action(ActionKind.CHOOSE_WINNER, campaign.campaign_id, {"version": name}) for name in names)


_HELD: Mapping[str, Callable[[CampaignFacts], CampaignExplanation]] = {
    PAUSED: _paused,
    SCHEDULED: _scheduled,
    AWAITING_WINNER: _waits_for_winner,
    QUOTA_EXHAUSTED: _quota_used_up,
    PROVIDER_RATE: _provider_rate,
}


# Why no mail of a campaign may go although nothing holds it, and what a person can do about it.
_MAILS_WAIT: Mapping[str, tuple[str, str]] = {
    DeferReason.PROVIDER_UNAVAILABLE: (
        "The provider does not take mail",
        "The provider taking mail again: `mailwright check` tells whether it does.",
    ),
    DeferReason.PROVIDER_THROTTLED: (
        "The provider takes no more mail for now",
        "The provider taking mail again: `mailwright check` tells whether it does.",
    ),
    DeferReason.PROVIDER_MISSING: (
        "The provider that may already have its mails is in no worker's route any more",
        "That provider in MAILWRIGHT_ROUTE again.",
    ),
    DeferReason.DOMAIN_RATE: (
        "The domains of its readers have had as many mails as MAILWRIGHT_DOMAIN_LIMITS allows for now",
        "That moment, or a higher limit in MAILWRIGHT_DOMAIN_LIMITS.",
    ),
    DeferReason.DOMAIN_CONCURRENCY: (
        "The domains of its readers have as many mails under way as MAILWRIGHT_DOMAIN_LIMITS allows at once",
        "That moment, or a higher limit in MAILWRIGHT_DOMAIN_LIMITS.",
    ),
    DeferReason.TENANT_CONCURRENCY: (
        "Its tenant has as many mails under way as it may have at once",
        "That moment, or another limit of the tenant.",
    ),
    DeferReason.ONE_AT_A_TIME: ("Its mails go one at a time, and one of them is under way", "The end of that one."),
    DeferReason.RESEND_TURN: ("Its mails were in doubt and go once more, one at a time", "That moment."),
    DeferReason.RECIPIENT_HOURS: (
        "It is outside working hours by the clocks of all readers who are left",
        "That moment, or other working hours of the campaign.",
    ),
    RETRY_SCHEDULED: ("All its mails that are left were tried and are tried again", "That moment."),
}


def _mails_wait(facts: CampaignFacts, wait: Deferral) -> CampaignExplanation:
    words, change = _MAILS_WAIT.get(wait.reason, (f"Its mails wait ({wait.reason})", "That moment."))
    sentence = f"{words}: {_mails(facts.left)} left, the first of them goes {at_moment(wait.until, facts.now)}."
    return _answer(facts, "held", sentence, reason=wait.reason, until=wait.until, change=change)


# What is asked of the database.


async def _row(tx: Transaction, campaign_id: str, tenant_id: int | None, now: Instant) -> Any:
    query = (
        select(
            campaigns,
            tenants.c.name.label("tenant"),
            queue_entries.c.lane,
            queue_entries.c.completed_at,
            queue_entries.c.walk_ended_at,
            queue_entries.c.limits,
            queue_entries.c.content,
            lane_deferrals.c.defer_reason,
            lane_deferrals.c.deferred_until,
        )
        .join(tenants, tenants.c.id == campaigns.c.tenant_id)
        .outerjoin(queue_entries, queue_entries.c.campaign_key == campaigns.c.id)
        .outerjoin(
            lane_deferrals, (lane_deferrals.c.lane == queue_entries.c.lane) & (lane_deferrals.c.deferred_until > now)
        )
        .where(campaigns.c.campaign_id == campaign_id)
    )
    if tenant_id is not None:
        query = query.where(campaigns.c.tenant_id == tenant_id)
    rows = await tx.execute(query)
    if not rows:
        raise NotFound
    return rows[0]


async def _goes_after(tx: Transaction, row: Any, now: Instant, waiting: Mapping[int, Deferral]) -> Any:
    """The first of the tenant's campaigns that may go now, where that is another."""
    rows = await tx.execute(
        select(campaigns.c.campaign_id, campaigns.c.name, campaigns.c.status)
        .join(queue_entries, queue_entries.c.campaign_key == campaigns.c.id)
        .outerjoin(
            lane_deferrals, (lane_deferrals.c.lane == queue_entries.c.lane) & (lane_deferrals.c.deferred_until > now)
        )
        .where(
            queue_entries.c.tenant_id == row.tenant_id,
            queue_entries.c.completed_at.is_(None),
            queue_entries.c.lane < row.lane,
            lane_deferrals.c.lane.is_(None),
            queue_entries.c.lane.not_in(list(waiting)),
        )
        .order_by(queue_entries.c.lane)
        .limit(1)
    )
    return rows[0] if rows else None


async def _holder(tx: Transaction, levels: tuple[LimitLevel, ...], reason: str, now: Instant) -> LimitLevel | None:
    """Whose rule of this name is used up or closed; the campaign's own where it is both's. None: the rule is gone."""
    for level in reversed(levels):
        if reason == "outside_hours" and outside_hours(level.limits, is_bulk=True, now=now) is not None:
            return level
        if any(pace.reason == reason for pace in send_rates(level.limits, level.owner)):
            return level
        if reason == ONE_AT_A_TIME and level.limits.one_at_a_time:
            return level
        for window in windows(level.limits, level.owner, now):
            if window.reason == reason:
                names = [{"name": name} for name in (window.name, *(related.name for related in window.related))]
                used = sum(int(row.used) for row in await tx.run(LOOK_AT_COUNTERS, wanted=names))
                if used >= window.limit:
                    return level
    return next((level for level in levels if _has_rule(level, reason, now)), None)


def _has_rule(level: LimitLevel, reason: str, now: Instant) -> bool:
    if reason == "outside_hours":
        return level.limits.working_hours != ALWAYS
    return any(window.reason == reason for window in windows(level.limits, level.owner, now))


# Words.


def _answer(
    facts: CampaignFacts,
    state: str,
    sentence: str,
    *,
    reason: str | None = None,
    until: Instant | None = None,
    change: str | None = None,
    actions: tuple[Action, ...] = (),
) -> CampaignExplanation:
    name, detail = split_defer_reason(reason)
    campaign_id, then = facts.campaign.campaign_id, _then(facts)
    return CampaignExplanation(campaign_id, sentence, state, name, until, change, then, detail, actions)


def _acts(facts: CampaignFacts, *kinds: ActionKind) -> tuple[Action, ...]:
    return campaign_actions(facts.campaign.campaign_id, facts.campaign.status, *kinds)


def _may(facts: CampaignFacts, kind: ActionKind) -> bool:
    return is_allowed(kind, facts.campaign.status)


def _then(facts: CampaignFacts) -> str | None:
    """What the forecast says it does once it may."""
    course = facts.course
    if course is None or course.starts_at is None:
        return None
    later = f"It continues {at_moment(course.starts_at, facts.now)}"
    begins = "It goes on" if course.starts_at <= facts.now else later
    if course.finishes_at is None:
        return f"{begins} and does not end within a year."
    return f"{begins} and ends {at_moment(course.finishes_at, facts.now)}, with {_mails(course.remaining)} to send."


def _mails(number: int) -> str:
    return "1 mail" if number == 1 else f"{number:,} mails"
