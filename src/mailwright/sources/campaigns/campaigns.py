"""Create, edit, start, pause and cancel campaigns. Every change is recorded in the audit log."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
from sqlalchemy import insert, select, update

from mailwright.content.mime import EmailAttachment
from mailwright.content.presend_checks import PresendContext, PresendIssue
from mailwright.content.template_store import TemplateStore
from mailwright.domain.campaign import (
    ALLOWED_STATUSES,
    AWAITING_WINNER,
    CANCELLED,
    INDEFINITELY,
    PAUSED,
    SCHEDULE_OVERDUE,
    SCHEDULED,
    UNDECIDED,
    CampaignAction,
    CampaignStatus,
)
from mailwright.domain.clock import Clock, Instant, isoformat
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.ids import is_uuid, uuid7
from mailwright.domain.lanes import lane_number
from mailwright.domain.message import Accepted
from mailwright.domain.schedule import is_past
from mailwright.domain.states import EventType, Priority, Resolution
from mailwright.outbox import audit_log, defer
from mailwright.outbox.accept import accept
from mailwright.outbox.search import newest_message_key
from mailwright.sources.campaigns import failure_actions
from mailwright.sources.campaigns.ab_test import decide_winner
from mailwright.sources.campaigns.announce import AnnouncedCampaign, announce, announce_hold
from mailwright.sources.campaigns.attachments import (
    CampaignAttachment,
    copy_attachments,
    delete_attachment,
    insert_attachments,
    list_attachments,
)
from mailwright.sources.campaigns.checks import SEND_NOW_ADVICE, filter_with_segment
from mailwright.sources.campaigns.definition import CampaignDefinition, CampaignLimits
from mailwright.sources.campaigns.enqueue import count_new_recipients
from mailwright.sources.campaigns.entries import ENQUEUE_AGAIN, QUEUE_ORDER, QueueEntry, find_entry, update_entry
from mailwright.sources.campaigns.failure_actions import RetriedMessages
from mailwright.sources.campaigns.snapshot import freeze
from mailwright.sources.campaigns.test_send import CampaignTestSend, build_test_messages
from mailwright.sources.sender_rules import NO_SENDER_RULES, SenderRules, SenderRulesDecision
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import campaigns, queue_entries


@dataclass(frozen=True, slots=True)
class Campaign:
    key: int
    campaign_id: str
    tenant_id: int
    status: CampaignStatus
    definition: CampaignDefinition
    created_at: Instant
    updated_at: Instant
    started_at: Instant | None
    finished_at: Instant | None
    attachments: tuple[CampaignAttachment, ...] = ()  # not in lists of campaigns

    @property
    def name(self) -> str:
        return self.definition.name


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, and for which tenant. A tenant of None is an operator on the console, who may act for all."""

    name: str
    tenant_id: int | None


class Campaigns:
    def __init__(
        self, database: Database, clock: Clock, templates: TemplateStore, rules: SenderRules = NO_SENDER_RULES
    ) -> None:
        self._database = database
        self._clock = clock
        self._templates = templates
        self.rules = rules

    async def create(
        self,
        actor: Actor,
        tenant_id: int,
        definition: CampaignDefinition,
        *,
        attachments: Sequence[EmailAttachment] = (),
        copy_of: Campaign | None = None,
    ) -> Campaign:
        """Create a draft with new attachments, or with those of another campaign."""
        now = self._clock.now()
        async with self._database.write() as tx:
            rows = await tx.execute(
                insert(campaigns)
                .values(
                    campaign_id=uuid7(now),
                    tenant_id=tenant_id,
                    name=definition.name,
                    status=CampaignStatus.DRAFT,
                    definition=_as_text(definition),
                    scheduled_at=definition.scheduled_at,
                    created_at=now,
                    updated_at=now,
                )
                .returning(campaigns)
            )
            campaign = _campaign(rows[0])
            await insert_attachments(tx, tenant_id, campaign.key, attachments, now)
            if copy_of is not None:
                await copy_attachments(tx, copy_of.key, campaign.key, now)
            await self._record(tx, actor, "create", campaign)
            return replace(campaign, attachments=await list_attachments(tx, campaign.key))

    async def find(self, campaign_id: str, *, tenant_id: int | None) -> Campaign:
        async with self._database.read() as tx:
            return await _find(tx, campaign_id, tenant_id)

    async def list_page(self, *, tenant_id: int | None, limit: int, before: int = 2**63 - 1) -> list[Campaign]:
        """Return a page of campaigns, newest first."""
        query = select(campaigns).where(campaigns.c.id < before)
        if tenant_id is not None:
            query = query.where(campaigns.c.tenant_id == tenant_id)
        async with self._database.read() as tx:
            rows = await tx.execute(query.order_by(campaigns.c.id.desc()).limit(limit))
        return [_campaign(row) for row in rows]

    async def edit(self, actor: Actor, campaign_id: str, definition: CampaignDefinition) -> Campaign:
        async with self._database.write() as tx:
            campaign = await _lock(tx, actor, campaign_id, CampaignAction.EDIT)
            changes = {
                "name": definition.name,
                "definition": _as_text(definition),
                "scheduled_at": definition.scheduled_at,
            }
            await self._change(tx, campaign, **changes)
            await self._record(tx, actor, CampaignAction.EDIT, campaign)
            return await _find(tx, campaign_id, actor.tenant_id)

    async def duplicate(self, actor: Actor, campaign_id: str, name: str | None = None) -> Campaign:
        """Create a draft with the same content, attachments and audience."""
        original = await self.find(campaign_id, tenant_id=actor.tenant_id)
        changes = {"name": name or f"{original.name} (copy)", "scheduled_at": None}
        copy = original.definition.model_copy(update=changes)
        return await self.create(actor, original.tenant_id, copy, copy_of=original)

    async def attach(self, actor: Actor, campaign_id: str, added: Sequence[EmailAttachment]) -> Campaign:
        """Add files to a draft. Every message of the campaign will carry them."""
        now = self._clock.now()
        async with self._database.write() as tx:
            campaign = await _lock(tx, actor, campaign_id, CampaignAction.ATTACH)
            await insert_attachments(tx, campaign.tenant_id, campaign.key, added, now)
            await self._change(tx, campaign)
            files = [each.filename for each in added]
            await self._record(tx, actor, CampaignAction.ATTACH, campaign, files=files)
            return await _find(tx, campaign_id, actor.tenant_id)

    async def detach(self, actor: Actor, campaign_id: str, attachment_id: str) -> Campaign:
        """Remove a file from a draft, and delete its content."""
        async with self._database.write() as tx:
            campaign = await _lock(tx, actor, campaign_id, CampaignAction.DETACH)
            removed = await delete_attachment(tx, campaign.key, attachment_id)
            await self._change(tx, campaign)
            await self._record(tx, actor, CampaignAction.DETACH, campaign, files=[removed.filename])
            return await _find(tx, campaign_id, actor.tenant_id)

    async def start(
        self,
        actor: Actor,
        campaign_id: str,
        *,
        overrides_rules: bool = False,
        send_now: bool = False,
        send_at: Instant | None = None,
    ) -> Campaign:
        """Freeze the content and join the queue, or raise an error with all problems at once and change nothing."""
        facts = PresendContext(postal_address=self.rules.postal_address)
        started, _ = await self.start_with_warnings(
            actor, campaign_id, facts, overrides_rules=overrides_rules, send_now=send_now, send_at=send_at
        )
        return started

    async def start_with_warnings(
        self,
        actor: Actor,
        campaign_id: str,
        facts: PresendContext,
        *,
        overrides_rules: bool = False,
        send_now: bool = False,
        send_at: Instant | None = None,
    ) -> tuple[Campaign, tuple[PresendIssue, ...]]:
        """Start the campaign, and return the warnings of the pre-send checks.

        `send_now` drops its send time, and `send_at` replaces it. `overrides_rules` sends although the rules of the
        large mailbox providers are not met. The audit log says so.
        """
        draft = await self.find(campaign_id, tenant_id=actor.tenant_id)
        _check(draft, CampaignAction.START)
        definition = with_send_time(draft.definition, send_now=send_now, send_at=send_at)
        now = self._clock.now()
        frozen = await freeze(
            self._database,
            self._templates,
            definition,
            tenant_id=draft.tenant_id,
            campaign_id=campaign_id,
            now=now,
            facts=facts,
            rules=self.rules,
            overrides_rules=overrides_rules,
            attachments=draft.attachments,
        )
        async with self._database.write() as tx:
            campaign = await _lock(tx, actor, campaign_id, CampaignAction.START)
            if (campaign.definition, campaign.attachments) != (draft.definition, draft.attachments):
                raise NotPossibleNow("The campaign was edited during its start. Start it again.")
            if definition.scheduled_at != draft.definition.scheduled_at:
                await self._set_send_time(tx, actor, campaign, definition.scheduled_at)
            entry_id = await _insert_entry(tx, campaign, frozen.content.as_text(), frozen.planned, now)
            lane = lane_number(Priority.BULK, campaign.tenant_id, entry_id)
            await tx.execute(update(queue_entries).where(queue_entries.c.id == entry_id).values(lane=lane))
            if definition.scheduled_at is not None and definition.scheduled_at > now:
                await defer.record_lane_deferral(tx, lane, SCHEDULED, definition.scheduled_at)
            await self._change(
                tx,
                campaign,
                status=CampaignStatus.READY,
                started_at=now,
                messages_after_key=await newest_message_key(tx),
            )
            await self._record(tx, actor, CampaignAction.START, campaign, planned=frozen.planned)
            if overrides_rules:
                unmet = list(frozen.unmet_rules)
                await self._record(tx, actor, CampaignAction.OVERRIDE_RULES, campaign, unmet=unmet)
            await announce(tx, _announced(campaign), EventType.CAMPAIGN_STARTED, now)
            return await _find(tx, campaign_id, actor.tenant_id), frozen.warnings

    async def reschedule(self, actor: Actor, campaign_id: str, scheduled_at: Instant | None) -> Campaign:
        """Change the send time of a campaign that has not begun to send. None means now."""
        now = self._clock.now()
        if scheduled_at is not None and is_past(scheduled_at, now):
            raise InvalidInput(f"is in the past; {SEND_NOW_ADVICE}", field="scheduledAt")
        async with self._database.write() as tx:
            campaign = await _lock(tx, actor, campaign_id, CampaignAction.RESCHEDULE)
            if campaign.status is not CampaignStatus.DRAFT:
                entry = await _entry(tx, campaign)
                if entry.recipients or entry.processed:
                    raise NotPossibleNow("The campaign has already begun to send, so its send time cannot change.")
                if campaign.status is CampaignStatus.READY:
                    await _defer_until_schedule(tx, entry, scheduled_at, now)
            await self._set_send_time(tx, actor, campaign, scheduled_at)
            return await _find(tx, campaign_id, actor.tenant_id)

    async def move(self, actor: Actor, campaign_id: str, position: int) -> tuple[Campaign, int]:
        """Move the campaign to a position in its tenant's queue, from 1. Return the position that it has now."""
        async with self._database.write() as tx:
            campaign = await _lock(tx, actor, campaign_id, CampaignAction.MOVE)
            before = await _open_entries(tx, campaign.tenant_id)
            if all(row.campaign_key != campaign.key for row in before):
                raise NotPossibleNow("The campaign is not in the queue: all its messages are processed.")
            after = [row for row in before if row.campaign_key != campaign.key]
            index = min(max(position, 1) - 1, len(after))
            after.insert(index, next(row for row in before if row.campaign_key == campaign.key))
            for place, row in zip([row.place for row in before], after, strict=True):
                if row.place != place:
                    await update_entry(tx, row.campaign_key, position=place)
            await self._record(tx, actor, CampaignAction.MOVE, campaign, position=index + 1)
            return campaign, index + 1

    async def pause(self, actor: Actor, campaign_id: str) -> Campaign:
        """Stop sending. Only messages that a provider is receiving now are still sent. The position is kept."""
        async with self._database.write() as tx:
            campaign = await _lock(tx, actor, campaign_id, CampaignAction.PAUSE)
            await defer.record_lane_deferral(tx, (await _entry(tx, campaign)).lane, PAUSED, INDEFINITELY)
            await announce_hold(tx, _announced(campaign), PAUSED, self._clock.now())
            return await self._move(tx, actor, CampaignAction.PAUSE, campaign, CampaignStatus.PAUSED)

    async def resume(self, actor: Actor, campaign_id: str) -> Campaign:
        now = self._clock.now()
        async with self._database.write() as tx:
            campaign = await _lock(tx, actor, campaign_id, CampaignAction.RESUME)
            entry = await _entry(tx, campaign)
            await defer.end_lane_deferral(tx, entry.lane)
            begins_at = campaign.definition.scheduled_at
            is_early = begins_at is not None and begins_at > now
            if is_early and begins_at is not None:
                await defer.record_lane_deferral(tx, entry.lane, SCHEDULED, begins_at)
            ab_test = entry.content.ab_test
            if ab_test is not None and ab_test.is_undecided:
                await defer.record_lane_deferral(tx, entry.lane, UNDECIDED, INDEFINITELY)
            elif ab_test is not None and ab_test.decides_at is not None and ab_test.decides_at > now:
                await defer.record_lane_deferral(tx, entry.lane, AWAITING_WINNER, ab_test.decides_at)
            await announce(tx, _announced(campaign), EventType.CAMPAIGN_RESUMED, now)
            status = CampaignStatus.READY if is_early else CampaignStatus.SENDING
            return await self._move(tx, actor, CampaignAction.RESUME, campaign, status)

    async def cancel(self, actor: Actor, campaign_id: str) -> Campaign:
        """Stop sending permanently. Messages that were sent stay in the report."""
        now = self._clock.now()
        async with self._database.write() as tx:
            campaign = await _lock(tx, actor, campaign_id, CampaignAction.CANCEL)
            if campaign.status is not CampaignStatus.DRAFT:
                await defer.record_lane_deferral(tx, (await _entry(tx, campaign)).lane, CANCELLED, INDEFINITELY)
                # Open the entry again, so that the scheduler cancels what still waits.
                await update_entry(tx, campaign.key, enqueue_ended_at=now, completed_at=None)
                await announce(tx, _announced(campaign), EventType.CAMPAIGN_CANCELLED, now)
            return await self._move(
                tx, actor, CampaignAction.CANCEL, campaign, CampaignStatus.CANCELLED, finished_at=now
            )

    async def retry_failed(self, actor: Actor, campaign_id: str) -> tuple[Campaign, RetriedMessages]:
        """Give the failed messages all their attempts again, except those to addresses that are suppressed by now."""
        async with self._database.write() as tx:
            campaign = await _lock(tx, actor, campaign_id, CampaignAction.RETRY_FAILED)
            found = await failure_actions.requeue_failed(tx, (await _entry(tx, campaign)).lane, self._clock.now())
            await update_entry(tx, campaign.key, completed_at=None)
            not_retried = found.bounced + found.suppressed
            await self._record(
                tx, actor, CampaignAction.RETRY_FAILED, campaign, messages=found.retried, notRetried=not_retried
            )
        return campaign, found

    async def resolve_in_doubt(self, actor: Actor, campaign_id: str, resolution: Resolution) -> tuple[Campaign, int]:
        """Resolve all messages in doubt as an operator decides. Return how many there were."""
        async with self._database.write() as tx:
            campaign = await _lock(tx, actor, campaign_id, CampaignAction.RESOLVE_IN_DOUBT)
            lane = (await _entry(tx, campaign)).lane
            count = await failure_actions.resolve_in_doubt(tx, lane, resolution, self._clock.now())
            if campaign.status is CampaignStatus.SENDING:
                await update_entry(tx, campaign.key, completed_at=None)  # It is complete when the resends are sent.
            await self._record(
                tx, actor, CampaignAction.RESOLVE_IN_DOUBT, campaign, messages=count, **{"as": resolution}
            )
        return campaign, count

    async def accept_failures(self, actor: Actor, campaign_id: str) -> Campaign:
        async with self._database.write() as tx:
            campaign = await _lock(tx, actor, campaign_id, CampaignAction.ACCEPT_FAILURES)
            if (await _entry(tx, campaign)).completed_at is None:
                raise NotPossibleNow("The campaign is still being sent. Accept its failures when it is complete.")
            now = self._clock.now()
            await announce(tx, _announced(campaign), EventType.CAMPAIGN_FINISHED, now)
            return await self._move(
                tx, actor, CampaignAction.ACCEPT_FAILURES, campaign, CampaignStatus.SENT, finished_at=now
            )

    async def edit_limits(self, actor: Actor, campaign_id: str, limits: CampaignLimits) -> Campaign:
        """Change the limits, also during sending. They take effect within one batch."""
        async with self._database.write() as tx:
            campaign = await _lock(tx, actor, campaign_id, CampaignAction.EDIT_LIMITS)
            definition = campaign.definition.model_copy(update={"limits": limits})
            await self._change(tx, campaign, definition=_as_text(definition))
            await update_entry(tx, campaign.key, limits=limits.model_dump_json(by_alias=False))
            if campaign.status in (CampaignStatus.READY, CampaignStatus.SENDING):
                # The old limit may have deferred it. If a new limit does, the next claim defers it again.
                kept = (SCHEDULED, SCHEDULE_OVERDUE, AWAITING_WINNER, UNDECIDED)
                await defer.end_lane_deferral(tx, (await _entry(tx, campaign)).lane, but=kept)
            changed = limits.model_dump(mode="json", exclude_defaults=True)
            await self._record(tx, actor, CampaignAction.EDIT_LIMITS, campaign, limits=changed)
            return replace(campaign, definition=definition)

    async def choose_winner(self, actor: Actor, campaign_id: str, version: str) -> Campaign:
        """Choose the winner of the A/B test before its results do."""
        async with self._database.write() as tx:
            campaign = await _lock(tx, actor, campaign_id, CampaignAction.CHOOSE_WINNER)
            entry = await _entry(tx, campaign)
            if entry.enqueue_ended_at is None:
                raise NotPossibleNow("The test group does not have all its messages yet.")
            await decide_winner(tx, entry, self._clock.now(), actor=actor.name, name=version)
            if campaign.status is CampaignStatus.PAUSED:
                await defer.record_lane_deferral(tx, entry.lane, PAUSED, INDEFINITELY)
            return campaign

    async def extend(self, actor: Actor, campaign_id: str, *, segment: str | None = None) -> tuple[Campaign, int]:
        """Send to new subscribers too, and to another segment if given. Nobody gets it twice."""
        now = self._clock.now()
        async with self._database.write() as tx:
            campaign = await _lock(tx, actor, campaign_id, CampaignAction.EXTEND)
            entry = await _entry(tx, campaign)
            if entry.enqueue_ended_at is None or entry.content.ab_test is not None:
                raise NotPossibleNow("The campaign is still enqueueing its audience, which includes new subscribers.")
            if segment is not None:
                wider = await filter_with_segment(tx, campaign.tenant_id, entry.content.filter, segment)
                entry = replace(entry, content=replace(entry.content, filter=wider))
            if not (added := await count_new_recipients(tx, entry, now)):
                raise NotPossibleNow("Everyone in the audience already has a message of the campaign.")
            planned = entry.recipients + added
            await update_entry(tx, campaign.key, content=entry.content.as_text(), planned=planned, **ENQUEUE_AGAIN)
            await self._change(tx, campaign, status=CampaignStatus.SENDING, finished_at=None)
            await announce(tx, _announced(campaign), EventType.CAMPAIGN_RESUMED, now)
            await self._record(tx, actor, CampaignAction.EXTEND, campaign, planned=added, segment=segment)
            return await _find(tx, campaign_id, actor.tenant_id), added

    async def override_rules(self, actor: Actor, campaign_id: str) -> Campaign:
        """Send although the rules of the large mailbox providers are not met. The audit log says who decided it."""
        async with self._database.write() as tx:
            campaign = await _lock(tx, actor, campaign_id, CampaignAction.OVERRIDE_RULES)
            entry = await _entry(tx, campaign)
            content = replace(entry.content, sender_rules=SenderRulesDecision.OVERRIDDEN)
            await update_entry(tx, campaign.key, content=content.as_text())
            await defer.end_lane_deferral(tx, entry.lane, but=(PAUSED, SCHEDULED, AWAITING_WINNER))
            await self._record(tx, actor, CampaignAction.OVERRIDE_RULES, campaign)
            return campaign

    async def test_send(
        self, actor: Actor, campaign_id: str, addresses: Sequence[str], *, as_contact: str | None = None
    ) -> list[Accepted]:
        """Send each variant to each address, outside the campaign's counts.

        `as_contact` is the address of the contact whose name and attributes fill the email; without it, samples do.
        """
        campaign = await self.find(campaign_id, tenant_id=actor.tenant_id)
        now = self._clock.now()
        attached = tuple(each.attachment_id for each in campaign.attachments)
        test = CampaignTestSend(campaign_id, campaign.tenant_id, campaign.definition, addresses, as_contact, attached)
        messages = await build_test_messages(self._database, self._templates, test, now)
        async with self._database.write() as tx:
            accepted = await accept(tx, messages, now)
            await self._record(tx, actor, CampaignAction.TEST, campaign, mails=len(messages))
        return accepted

    async def _move(
        self,
        tx: Transaction,
        actor: Actor,
        action: CampaignAction,
        campaign: Campaign,
        status: CampaignStatus,
        **changes: Any,
    ) -> Campaign:
        await self._change(tx, campaign, status=status, **changes)
        await self._record(tx, actor, action, campaign, before=campaign.status, after=status)
        return await _find(tx, campaign.campaign_id, None)

    async def _set_send_time(
        self, tx: Transaction, actor: Actor, campaign: Campaign, scheduled_at: Instant | None
    ) -> None:
        definition = campaign.definition.model_copy(update={"scheduled_at": scheduled_at})
        await self._change(tx, campaign, definition=_as_text(definition), scheduled_at=scheduled_at)
        before, after = isoformat(campaign.definition.scheduled_at), isoformat(scheduled_at)
        await self._record(tx, actor, CampaignAction.RESCHEDULE, campaign, before=before, after=after)

    async def _change(self, tx: Transaction, campaign: Campaign, **changes: Any) -> None:
        changes["updated_at"] = self._clock.now()
        await tx.execute(update(campaigns).where(campaigns.c.id == campaign.key).values(**changes))

    async def _record(self, tx: Transaction, actor: Actor, action: str, campaign: Campaign, **detail: Any) -> None:
        await audit_log.record(
            tx,
            self._clock.now(),
            actor=actor.name,
            action=f"campaign.{action}",
            subject=campaign.campaign_id,
            tenant_id=campaign.tenant_id,
            detail={"name": campaign.name, **detail},
        )


def with_send_time(
    definition: CampaignDefinition, *, send_now: bool = False, send_at: Instant | None = None
) -> CampaignDefinition:
    """Return the definition as it starts: now, at another time, or else at its own send time."""
    if not send_now and send_at is None:
        return definition
    return definition.model_copy(update={"scheduled_at": None if send_now else send_at})


async def _lock(tx: Transaction, actor: Actor, campaign_id: str, action: CampaignAction) -> Campaign:
    campaign = await _find(tx, campaign_id, actor.tenant_id, to_change=True)
    _check(campaign, action)
    return campaign


def _check(campaign: Campaign, action: CampaignAction) -> None:
    if campaign.status not in ALLOWED_STATUSES[action]:
        allowed = ", ".join(sorted(ALLOWED_STATUSES[action]))
        raise NotPossibleNow(f"The campaign is {campaign.status}. This is possible only in the status {allowed}.")


async def _find(tx: Transaction, campaign_id: str, tenant_id: int | None, *, to_change: bool = False) -> Campaign:
    if not is_uuid(campaign_id):
        raise NotFound
    query = select(campaigns).where(campaigns.c.campaign_id == campaign_id)
    if tenant_id is not None:
        query = query.where(campaigns.c.tenant_id == tenant_id)
    rows = await tx.execute(query.with_for_update() if to_change else query)
    if not rows:
        raise NotFound
    return replace(_campaign(rows[0]), attachments=await list_attachments(tx, rows[0].id))


async def _insert_entry(tx: Transaction, campaign: Campaign, content: str, planned: int, now: Instant) -> int:
    rows = await tx.execute(
        insert(queue_entries)
        .values(
            campaign_key=campaign.key,
            tenant_id=campaign.tenant_id,
            lane=0,
            content=content,
            limits=campaign.definition.limits.model_dump_json(by_alias=False),
            planned=planned,
            processed=0,
            recipients=0,
            enqueued_to="",
            created_at=now,
        )
        .returning(queue_entries.c.id)
    )
    return int(rows[0].id)


async def _open_entries(tx: Transaction, tenant_id: int) -> Sequence[Any]:
    """Return the tenant's queue in order, locked against another move."""
    is_open = (queue_entries.c.tenant_id == tenant_id) & queue_entries.c.completed_at.is_(None)
    query = select(queue_entries.c.campaign_key, QUEUE_ORDER.label("place")).where(is_open).order_by(QUEUE_ORDER)
    return await tx.execute(query.with_for_update())


async def _defer_until_schedule(tx: Transaction, entry: QueueEntry, scheduled_at: Instant | None, now: Instant) -> None:
    await defer.end_lane_deferral(tx, entry.lane)
    if scheduled_at is not None and scheduled_at > now:
        await defer.record_lane_deferral(tx, entry.lane, SCHEDULED, scheduled_at)


async def _entry(tx: Transaction, campaign: Campaign) -> QueueEntry:
    entry = await find_entry(tx, campaign.key)
    if entry is None:
        raise NotFound
    return entry


def _announced(campaign: Campaign) -> AnnouncedCampaign:
    return AnnouncedCampaign(campaign.key, campaign.campaign_id, campaign.name, campaign.tenant_id)


def _as_text(definition: CampaignDefinition) -> str:
    return definition.model_dump_json(by_alias=True, exclude_none=True)


def _campaign(row: Any) -> Campaign:
    return Campaign(
        key=row.id,
        campaign_id=row.campaign_id,
        tenant_id=row.tenant_id,
        status=CampaignStatus(row.status),
        definition=CampaignDefinition.model_validate(orjson.loads(row.definition)),
        created_at=row.created_at,
        updated_at=row.updated_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )
