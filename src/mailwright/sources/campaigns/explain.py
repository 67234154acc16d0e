"""Explain why a campaign is not sent yet: its state, the reason and its end, the possible actions, and the forecast.

The result is data without user-facing text. The reason and its end are read from the queue, never computed again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy import func, select

from mailwright.content.presend_checks import PresendContext as Known
from mailwright.content.template_store import TemplateStore
from mailwright.domain.actions import Action, ActionKind, campaign_actions, is_allowed
from mailwright.domain.approval import ApprovalStatus
from mailwright.domain.campaign import (
    AWAITING_WINNER,
    AWAITS_APPROVAL,
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
    CampaignStatus,
    QueueStatus,
)
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotFound
from mailwright.domain.explanation import CampaignExplanation, CampaignState, LimitScope, ReachedLimit, Remedy
from mailwright.domain.guard_rails import GuardState
from mailwright.domain.ids import is_uuid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.permits import (
    QUOTA_EXHAUSTED,
    THROTTLED_RATE,
    Deferral,
    DeferReason,
    split_defer_reason,
)
from mailwright.domain.states import Status
from mailwright.outbox.explain import LIMIT_COLUMNS
from mailwright.outbox.limits import DefaultLimits, LimitRules, load_limit_rules
from mailwright.outbox.provider_limits import load_provider_limits
from mailwright.outbox.sending_hold import SendingHold, load_hold
from mailwright.outbox.workers import LostLeases, WorkerPresence, find_lost_leases, learned_rate_of, list_present
from mailwright.sources.campaigns.approval_gate import load_gate
from mailwright.sources.campaigns.approvals import CampaignApprovals, PlanReport
from mailwright.sources.campaigns.checks import NO_FACTS, check_campaign
from mailwright.sources.campaigns.deferrals import RETRY_SCHEDULED, load_lane_deferrals, load_lane_providers
from mailwright.sources.campaigns.definition import CampaignDefinition, CampaignLimits
from mailwright.sources.campaigns.entries import QUEUE_ORDER, CampaignSnapshot
from mailwright.sources.campaigns.forecast import forecast
from mailwright.sources.campaigns.forecast_values import CampaignForecast
from mailwright.sources.campaigns.progress import COUNT_LANE
from mailwright.sources.campaigns.queue_recorder import refresh_queue
from mailwright.sources.campaigns.reached_limit import (
    LimitedLane,
    find_hours,
    find_pace,
    find_reached_limit,
    own_columns,
)
from mailwright.sources.campaigns.records import RepeatSummary
from mailwright.sources.campaigns.repeat_records import find_summary
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import campaigns, deliveries, lane_deferrals, queue_entries, tenants


@dataclass(frozen=True, slots=True)
class CampaignFacts:
    """Everything that an explanation is derived from."""

    campaign: Any  # its row, with its queue entry and deferral if it has them
    counts: Any  # None before it starts
    now: Instant
    workers: list[WorkerPresence]
    campaign_ahead: Any  # ID, name and status of the tenant's campaign that is sent first, or None
    limit: ReachedLimit | None
    forecast: CampaignForecast | None
    message_deferral: Deferral | None = None  # the deferral of its messages while the campaign itself may send
    can_start: bool = False  # a draft that passed the pre-send checks
    approval: PlanReport | None = None  # only if a second person may have to approve it
    hold: SendingHold | None = None
    lost: LostLeases | None = None
    failure_codes: tuple[tuple[str, int], ...] = ()  # only if nobody received it
    repeat: RepeatSummary | None = None  # of a draft that repeats, or that was made by a schedule and not started


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
    approvals: CampaignApprovals | None = None,
) -> CampaignExplanation:
    """Explain a campaign of the tenant. A `tenant_id` of None is an operator, who sees the campaigns of all tenants.

    A caller that already has a forecast passes it as `foreseen`, because a forecast is expensive. If `store` is
    given, the pre-send checks run to find out whether a draft can start, and `approvals` whether it may.
    """
    if not is_uuid(campaign_id):
        raise NotFound
    now = clock.now()
    await refresh_queue(database, clock, defaults)
    rules = await load_limit_rules(database, defaults)
    async with database.read() as tx:
        row = await _find(tx, campaign_id, tenant_id, now)
        is_queued = row.lane is not None and row.completed_at is None
        counts = None if row.lane is None else (await tx.run(COUNT_LANE, lane=row.lane))[0]
        failure_codes = await _failure_codes(tx, row, counts)
        deferrals, hold = await load_lane_deferrals(tx, now), await load_hold(tx)
        lost = await find_lost_leases(tx, now, row.lane) if is_queued else None
        ahead = await _campaign_ahead(tx, row) if row.queue_reason == QUEUED else None
        repeat = await find_summary(tx, row.id) if row.status == CampaignStatus.DRAFT else None
        is_gated = row.defer_reason == AWAITS_APPROVAL or await _is_gated_draft(tx, row)
        message_deferral = deferrals.get(row.lane)
    limit = await _find_limit(database, defaults, row, rules, message_deferral, now=now)
    if is_queued and foreseen is None:
        foreseen = (await forecast(database, clock, defaults, tenant_id=row.tenant_id)).campaigns
    own_forecast = next((each for each in foreseen or () if each.campaign_id == campaign_id), None)
    can_start = await _can_start(database, store, row, now, known) if store is not None else False
    report = await approvals.report(campaign_id, tenant_id=row.tenant_id) if approvals and is_gated else None
    return explanation(
        CampaignFacts(
            campaign=row,
            counts=counts,
            now=now,
            workers=await list_present(database, now),
            campaign_ahead=ahead,
            limit=limit,
            forecast=own_forecast if is_queued else None,
            message_deferral=message_deferral,
            can_start=can_start,
            approval=report,
            hold=hold,
            lost=lost,
            failure_codes=failure_codes,
            repeat=repeat,
        )
    )


def explanation(facts: CampaignFacts) -> CampaignExplanation:
    """Return the explanation by the first rule that applies."""
    match CampaignStatus(facts.campaign.status):
        case CampaignStatus.DRAFT:
            if facts.approval is not None and facts.approval.refusal is not None:
                return _awaits_approval(facts, CampaignState.DRAFT)
            next_step = ActionKind.START_CAMPAIGN if facts.can_start else ActionKind.PREFLIGHT_CAMPAIGN
            actions = _allowed(facts, next_step)
            return _explain(facts, CampaignState.DRAFT, remedy=Remedy.START_CAMPAIGN, actions=actions)
        case CampaignStatus.SENT:
            return _explain(facts, CampaignState.SENT, failure_codes=facts.failure_codes)
        case CampaignStatus.CANCELLED:
            return _cancelled(facts)
        case CampaignStatus.READY | CampaignStatus.SENDING | CampaignStatus.PAUSED:
            return _unfinished(facts) if facts.campaign.completed_at is None else _completed(facts)


def _awaits_approval(facts: CampaignFacts, state: CampaignState = CampaignState.HELD) -> CampaignExplanation:
    """Explain a campaign that waits until a second person approves it. Nobody can approve it on the console."""
    report, details = facts.approval, {}
    remedy, kinds = Remedy.REQUEST_APPROVAL, [ActionKind.SHOW_PLAN, ActionKind.REQUEST_APPROVAL]
    if report is not None:
        details = {"approval": report.refusal, "changes": tuple(each.sentence for each in report.changes)}
        if report.approval is not None and report.approval.status is ApprovalStatus.WAITING:
            remedy, kinds = Remedy.APPROVE_CAMPAIGN, [ActionKind.SHOW_PLAN]
    actions = _allowed(facts, *kinds)
    return _explain(facts, state, reason=AWAITS_APPROVAL, remedy=remedy, actions=actions, **details)


def _cancelled(facts: CampaignFacts) -> CampaignExplanation:
    if facts.counts is None or not facts.counts.in_doubt:
        return _explain(facts, CampaignState.CANCELLED)
    actions = _allowed(facts, ActionKind.FIND_DOUBTS)
    return _explain(facts, CampaignState.CANCELLED, reason="in_doubt", remedy=Remedy.RESOLVE_MESSAGES, actions=actions)


def _unfinished(facts: CampaignFacts) -> CampaignExplanation:
    campaign = facts.campaign
    if facts.hold is not None:
        reason, since = facts.hold.reason, facts.hold.since
        return _explain(facts, CampaignState.HELD, reason=reason, held_since=since, remedy=Remedy.RELEASE_SENDING)
    if campaign.queue_reason == QUEUED and facts.campaign_ahead is not None:
        return _queued(facts, facts.campaign_ahead)
    if campaign.deferred_until is not None:
        return _DEFERRED.get(campaign.defer_reason, _limited)(facts)
    if campaign.queue_reason == NO_WORKER:
        return _explain(facts, CampaignState.NO_WORKER, reason=NO_WORKER, remedy=Remedy.START_WORKER)
    if facts.message_deferral is not None and campaign.queue_reason is not None:
        return _messages_deferred(facts, facts.message_deferral)
    return _sending(facts)


def _queued(facts: CampaignFacts, ahead: Any) -> CampaignExplanation:
    return _explain(
        facts,
        CampaignState.IN_LINE,
        reason=QUEUED,
        until=facts.forecast.starts_at if facts.forecast else facts.campaign.queue_until,
        remedy=Remedy.PAUSE_CAMPAIGN_AHEAD,
        actions=campaign_actions(ahead.campaign_id, ahead.status, ActionKind.PAUSE_CAMPAIGN),
    )


def _sending(facts: CampaignFacts) -> CampaignExplanation:
    lost, learned = facts.lost, learned_rate_of(facts.workers)
    pace = facts.limit
    if learned is not None:
        pace = ReachedLimit(THROTTLED_RATE, LimitScope.PROVIDER, allowed=max(1, round(learned)))
    if lost is not None and not facts.counts.waiting and lost.messages == facts.counts.sending:
        return _explain(facts, CampaignState.SENDING, reason="worker_lost", until=lost.until, remedy=Remedy.WAIT)
    if GuardState.read(facts.campaign.guard).finding is None:
        return _explain(facts, CampaignState.SENDING, limit=pace)
    actions = _allowed(facts, ActionKind.PAUSE_CAMPAIGN, ActionKind.ACCEPT_INCIDENTS)
    remedy = Remedy.ACCEPT_INCIDENTS
    return _explain(facts, CampaignState.SENDING, limit=pace, remedy=remedy, actions=actions)


def _completed(facts: CampaignFacts) -> CampaignExplanation:
    """Explain a campaign with nothing left to send that has failed or unconfirmed messages."""
    if facts.counts.failed:
        return _explain(
            facts,
            CampaignState.FAILURES,
            reason="failures",
            remedy=Remedy.RETRY_OR_ACCEPT_FAILURES,
            actions=_allowed(facts, ActionKind.RETRY_FAILED, ActionKind.ACCEPT_FAILURES),
        )
    actions = _allowed(facts, ActionKind.FIND_DOUBTS)
    return _explain(facts, CampaignState.IN_DOUBT, reason="in_doubt", remedy=Remedy.RESOLVE_MESSAGES, actions=actions)


# Deferred as a whole.


def _deferred(facts: CampaignFacts, state: CampaignState = CampaignState.HELD, **details: Any) -> CampaignExplanation:
    campaign = facts.campaign
    until = None if campaign.defer_reason in (PAUSED, UNDECIDED, GUARD_RAILS) else campaign.deferred_until
    return _explain(facts, state, reason=campaign.defer_reason, until=until, **details)


def _limited(facts: CampaignFacts) -> CampaignExplanation:
    limit = facts.limit
    if limit is None:
        # The limit was removed, and the deferral that it caused is still in force.
        actions = _allowed(facts, ActionKind.PAUSE_CAMPAIGN)
        return _deferred(facts, remedy=Remedy.PAUSE_AND_RESUME, actions=actions)
    actions = _remove_limit(facts, limit.name) if limit.scope is LimitScope.CAMPAIGN else ()
    return _deferred(facts, remedy=Remedy.CHANGE_LIMIT, limit=limit, actions=actions)


# The field of a campaign's limits that sets each limit.
_LIMIT_FIELDS: Mapping[str, str] = {
    "rate_per_hour": "ratePerHour",
    "daily_limit": "dailyLimit",
    "outside_hours": "workingHours",
    "warmup": "warmup",
}


def _remove_limit(facts: CampaignFacts, name: str) -> tuple[Action, ...]:
    """Offer to save the campaign's own limits without the one that defers it."""
    limits = CampaignLimits.model_validate_json(facts.campaign.limits)
    written = limits.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if written.pop(_LIMIT_FIELDS.get(name, ""), None) is None or not _is_allowed(facts, ActionKind.EDIT_LIMITS):
        return ()
    return (Action(ActionKind.EDIT_LIMITS, facts.campaign.campaign_id, written),)


def _paused(facts: CampaignFacts) -> CampaignExplanation:
    actions = _allowed(facts, ActionKind.RESUME_CAMPAIGN)
    return _deferred(facts, CampaignState.PAUSED, remedy=Remedy.RESUME_CAMPAIGN, actions=actions)


def _next_wave(facts: CampaignFacts) -> CampaignExplanation:
    actions = _allowed(facts, ActionKind.OPEN_WAVE, ActionKind.PAUSE_CAMPAIGN, ActionKind.CANCEL_CAMPAIGN)
    return _deferred(facts, remedy=Remedy.OPEN_WAVE, actions=actions)


def _stopped_by_guard(facts: CampaignFacts) -> CampaignExplanation:
    if facts.campaign.status != CampaignStatus.PAUSED:  # only the next wave is held
        actions = _allowed(facts, ActionKind.OPEN_WAVE, ActionKind.CANCEL_CAMPAIGN)
        return _deferred(facts, remedy=Remedy.CHECK_AND_OPEN_WAVE, actions=actions)
    actions = _allowed(facts, ActionKind.RESUME_CAMPAIGN, ActionKind.CANCEL_CAMPAIGN)
    return _deferred(facts, CampaignState.PAUSED, remedy=Remedy.CHECK_INCIDENTS, actions=actions)


def _scheduled(facts: CampaignFacts) -> CampaignExplanation:
    actions = (*_send_now(facts), *_allowed(facts, ActionKind.CANCEL_CAMPAIGN))
    return _deferred(facts, CampaignState.SCHEDULED, remedy=Remedy.RESCHEDULE_CAMPAIGN, actions=actions)


def _overdue(facts: CampaignFacts) -> CampaignExplanation:
    actions = (*_send_now(facts), *_allowed(facts, ActionKind.CANCEL_CAMPAIGN))
    remedy = Remedy.SEND_OR_RESCHEDULE
    return _explain(facts, CampaignState.OVERDUE, reason=SCHEDULE_OVERDUE, remedy=remedy, actions=actions)


def _send_now(facts: CampaignFacts) -> tuple[Action, ...]:
    if not _is_allowed(facts, ActionKind.SEND_NOW):
        return ()
    return (Action(ActionKind.SEND_NOW, facts.campaign.campaign_id, {"scheduledAt": None}),)


def _awaiting_winner(facts: CampaignFacts) -> CampaignExplanation:
    return _deferred(facts, remedy=Remedy.CHOOSE_WINNER, actions=_possible_winners(facts))


def _possible_winners(facts: CampaignFacts) -> tuple[Action, ...]:
    campaign = facts.campaign
    content = CampaignSnapshot.read(campaign.content)
    is_enqueued = campaign.enqueue_ended_at is not None
    if content.ab_test is None or not is_enqueued or not _is_allowed(facts, ActionKind.CHOOSE_WINNER):
        return ()
    names = [variant.name for variant in content.variants]
    return tuple(Action(ActionKind.CHOOSE_WINNER, campaign.campaign_id, {"version": name}) for name in names)


_DEFERRED: Mapping[str, Callable[[CampaignFacts], CampaignExplanation]] = {
    PAUSED: _paused,
    GUARD_RAILS: _stopped_by_guard,
    NEXT_WAVE: _next_wave,
    SCHEDULED: _scheduled,
    SCHEDULE_OVERDUE: _overdue,
    AWAITING_WINNER: _awaiting_winner,
    UNDECIDED: lambda facts: _deferred(facts, remedy=Remedy.CHOOSE_VARIANT, actions=_possible_winners(facts)),
    AWAITS_APPROVAL: _awaits_approval,
    SENDER_RULES: lambda facts: _deferred(facts, remedy=Remedy.MEET_SENDER_RULES),
    QUOTA_EXHAUSTED: lambda facts: _deferred(
        facts, remedy=Remedy.MORE_QUOTA, limit=ReachedLimit(QUOTA_EXHAUSTED, LimitScope.PROVIDER)
    ),
}


# Deferred message by message.

_MESSAGE_REMEDIES: Mapping[str, Remedy] = {
    DeferReason.PROVIDER_UNAVAILABLE: Remedy.PROVIDER_RECOVERY,
    DeferReason.PROVIDER_THROTTLED: Remedy.PROVIDER_RECOVERY,
    DeferReason.PROVIDER_MISSING: Remedy.RESTORE_PROVIDER,
    DeferReason.DOMAIN_RATE: Remedy.CHANGE_DOMAIN_LIMITS,
    DeferReason.DOMAIN_CONCURRENCY: Remedy.CHANGE_DOMAIN_LIMITS,
    DeferReason.TENANT_CONCURRENCY: Remedy.CHANGE_LIMIT,
    DeferReason.ONE_AT_A_TIME: Remedy.WAIT,
    DeferReason.RESEND_TURN: Remedy.WAIT,
    DeferReason.RECIPIENT_HOURS: Remedy.CHANGE_LIMIT,
    DeferReason.FREQUENCY_CAP: Remedy.CHANGE_FREQUENCY_CAP,
    DeferReason.SNOOZED: Remedy.WAIT,
    RETRY_SCHEDULED: Remedy.WAIT,
}


def _messages_deferred(facts: CampaignFacts, deferral: Deferral) -> CampaignExplanation:
    limit = None
    actions: tuple[Action, ...] = ()
    name, _ = split_defer_reason(deferral.reason)
    if deferral.reason == DeferReason.TENANT_CONCURRENCY:
        limit = ReachedLimit(deferral.reason, LimitScope.TENANT, facts.campaign.tenant)
    elif deferral.reason == DeferReason.RECIPIENT_HOURS and facts.limit is not None:
        limit = facts.limit
        actions = _remove_limit(facts, limit.name) if limit.scope is LimitScope.CAMPAIGN else ()
    return _explain(
        facts,
        CampaignState.HELD,
        reason=deferral.reason,
        until=deferral.until,
        remedy=_MESSAGE_REMEDIES.get(deferral.reason) or _MESSAGE_REMEDIES.get(name or "", Remedy.WAIT),
        limit=limit,
        actions=actions,
        is_message_deferral=True,
    )


# Shared by the rules.


def _explain(
    facts: CampaignFacts, state: CampaignState, *, reason: str | None = None, **details: Any
) -> CampaignExplanation:
    campaign, counts, guard = facts.campaign, facts.counts, GuardState.read(facts.campaign.guard)
    code, detail = split_defer_reason(reason)
    if counts is not None:
        unsent, sending = int(counts.waiting + counts.sending), int(counts.sending)
        failed, in_doubt = int(counts.failed), int(counts.in_doubt)
        details |= {"unsent": unsent, "sending": sending, "failed": failed, "in_doubt": in_doubt}
    if facts.forecast is not None:
        details |= {
            "forecast_start": facts.forecast.starts_at,
            "forecast_end": facts.forecast.finishes_at,
            "forecast_messages": facts.forecast.remaining,
            "forecast_blocker": facts.forecast.blocker,
            "is_rate_unknown": facts.forecast.is_rate_unknown,
            "has_worker": bool(facts.workers),
        }
    if facts.lost is not None:
        details |= {"lost_messages": facts.lost.messages, "lost_until": facts.lost.until}
    if facts.repeat is not None:
        failure = None if facts.repeat.failed_at is None else facts.repeat.last_result
        details |= {"repeats_at": facts.repeat.next_at, "repeat_failure": failure}
    return CampaignExplanation(
        computed_at=facts.now,
        campaign_id=campaign.campaign_id,
        state=state,
        reason=code,
        detail=detail,
        tenant=campaign.tenant,
        recipients=campaign.recipients or 0,
        finished_at=campaign.finished_at,
        scheduled_at=campaign.scheduled_at,
        campaign_ahead=facts.campaign_ahead.name if facts.campaign_ahead is not None else None,
        guard=guard if guard.finding is not None else None,
        wave=campaign.wave,
        waves=_count_waves(campaign),
        **details,
    )


def _count_waves(campaign: Any) -> int:
    waves = CampaignSnapshot.read(campaign.content).waves if campaign.wave is not None else None
    return 0 if waves is None else len(waves.percents) + 1


def _allowed(facts: CampaignFacts, *kinds: ActionKind) -> tuple[Action, ...]:
    return campaign_actions(facts.campaign.campaign_id, facts.campaign.status, *kinds)


def _is_allowed(facts: CampaignFacts, kind: ActionKind) -> bool:
    return is_allowed(kind, facts.campaign.status)


# Queries.


async def _find_limit(
    database: Database, defaults: DefaultLimits, row: Any, rules: LimitRules, deferral: Deferral | None, *, now: Instant
) -> ReachedLimit | None:
    """Return the limit that defers the campaign: its own, its tenant's or its provider's."""
    levels = rules.levels(row.tenant_id, row.lane or 0)
    own = own_columns(row, levels[0].limits, "tenant_")
    lane = LimitedLane(row.tenant, own, row.name, row.limits)
    found = None
    if row.deferred_until is not None:
        async with database.read() as tx:
            sent_by = (await load_lane_providers(tx)).provider_of(row.lane or 0)
        shared = None if sent_by is None else await load_provider_limits(database, sent_by, defaults.limits)
        async with database.read() as tx:
            found = await find_reached_limit(tx, lane, row.defer_reason, (*levels, shared) if shared else levels, now)
    if found is None and deferral is not None and deferral.reason == DeferReason.RECIPIENT_HOURS:
        return find_hours(lane, levels, now)
    return find_pace(lane, levels) if row.queue_reason is None else found


async def _can_start(database: Database, store: TemplateStore, row: Any, now: Instant, known: Known) -> bool:
    """Return whether a campaign is a draft that passes the pre-send checks."""
    if row.status != CampaignStatus.DRAFT:
        return False
    definition = CampaignDefinition.model_validate(orjson.loads(row.definition))
    check = await check_campaign(database, store, definition, tenant_id=row.tenant_id, now=now, facts=known)
    return not check.problems


async def _is_gated_draft(tx: Transaction, row: Any) -> bool:
    return row.status == CampaignStatus.DRAFT and not (await load_gate(tx, row.tenant_id, row.id)).is_open


async def _failure_codes(tx: Transaction, campaign: Any, counts: Any) -> tuple[tuple[str, int], ...]:
    """Return why nobody received a finished campaign, the most frequent reason first."""
    if campaign.status != CampaignStatus.SENT or not counts or not 0 < campaign.recipients == counts.suppressed:
        return ()
    number = func.count().label("number")
    query = (
        select(deliveries.c.error_code, number)
        .where(deliveries.c.lane == campaign.lane, deliveries.c.status == Status.FAILED)
        .group_by(deliveries.c.error_code)
        .order_by(number.desc(), deliveries.c.error_code)
    )
    return tuple((row.error_code, row.number) for row in await tx.execute(query))


async def _find(tx: Transaction, campaign_id: str, tenant_id: int | None, now: Instant) -> Any:
    query = (
        select(
            campaigns,
            tenants.c.name.label("tenant"),
            *(tenants.c[column].label(f"tenant_{column}") for column in LIMIT_COLUMNS.values()),
            queue_entries.c.lane,
            queue_entries.c.position,
            queue_entries.c.id.label("entry_id"),
            queue_entries.c.completed_at,
            queue_entries.c.enqueue_ended_at,
            queue_entries.c.recipients,
            queue_entries.c.limits,
            queue_entries.c.content,
            queue_entries.c.guard,
            queue_entries.c.wave,
            queue_entries.c.defer_reason.label("queue_reason"),
            queue_entries.c.deferred_until.label("queue_until"),
            lane_deferrals.c.defer_reason,
            lane_deferrals.c.deferred_until,
        )
        .join(tenants, tenants.c.id == campaigns.c.tenant_id)
        .outerjoin(queue_entries, queue_entries.c.campaign_key == campaigns.c.id)
        .outerjoin(
            lane_deferrals,
            (lane_deferrals.c.lane == queue_entries.c.lane) & (lane_deferrals.c.deferred_until > now),
        )
        .where(campaigns.c.campaign_id == campaign_id)
    )
    if tenant_id is not None:
        query = query.where(campaigns.c.tenant_id == tenant_id)
    rows = await tx.execute(query)
    if not rows:
        raise NotFound
    return rows[0]


async def _campaign_ahead(tx: Transaction, row: Any) -> Any:
    """Find the tenant's campaign that this one waits for: the first that is being sent, or else that will be."""
    q = queue_entries.c
    rows = await tx.execute(
        select(campaigns.c.campaign_id, campaigns.c.name, campaigns.c.status, q.status.label("queue_status"))
        .join(queue_entries, q.campaign_key == campaigns.c.id)
        .where(
            q.tenant_id == row.tenant_id,
            q.completed_at.is_(None),
            (row.position or row.entry_id) > QUEUE_ORDER,
            func.coalesce(q.deferred_until, 0) != INDEFINITELY,
        )
        .order_by(q.status != QueueStatus.PROCESSING.value, func.coalesce(q.deferred_until, 0), QUEUE_ORDER)
        .limit(1)
    )
    return rows[0] if rows else None
