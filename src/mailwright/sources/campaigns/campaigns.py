"""Create, edit, start, pause and cancel campaigns. Every change is recorded in the audit log."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError

from mailwright.content.mime import EmailAttachment
from mailwright.content.presend_checks import PresendContext, PresendIssue
from mailwright.content.template_store import TemplateStore
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
    UNDECIDED,
    CampaignAction,
    CampaignStatus,
)
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, NotPossibleNow
from mailwright.domain.guard_rails import DEFAULT_GUARD_RAILS, GuardRails
from mailwright.domain.ids import uuid7
from mailwright.domain.lanes import lane_number
from mailwright.domain.message import Accepted
from mailwright.domain.record_state import RecordState
from mailwright.domain.schedule import is_past
from mailwright.domain.states import EventType, Priority
from mailwright.domain.translation import lazy_number
from mailwright.outbox import defer
from mailwright.outbox.accept import accept
from mailwright.outbox.queue_states import REOPENED
from mailwright.outbox.retention_rules import has_deleted_messages
from mailwright.outbox.search import newest_message_key
from mailwright.sources.campaigns.ab_test import decide_winner
from mailwright.sources.campaigns.announce import announce, announce_hold
from mailwright.sources.campaigns.approval_gate import AwaitsApproval, digests_of, load_gate, recording_void
from mailwright.sources.campaigns.attachments import (
    copy_attachments,
    delete_attachment,
    insert_attachments,
    list_attachments,
)
from mailwright.sources.campaigns.checks import SEND_NOW_ADVICE, check_sender_domain
from mailwright.sources.campaigns.definition import CampaignDefinition, CampaignLimits
from mailwright.sources.campaigns.enqueue import count_members
from mailwright.sources.campaigns.entries import ENQUEUE_AGAIN, QUEUE_ORDER, QueueEntry, update_entry
from mailwright.sources.campaigns.extension import extended_audience
from mailwright.sources.campaigns.guard_rails import accept_incidents, is_stopped
from mailwright.sources.campaigns.progress import has_nothing_to_send
from mailwright.sources.campaigns.records import (
    DECISION_ENTRIES,
    Actor,
    Campaign,
    CampaignChanges,
    announced,
    as_text,
    campaign_of_row,
    check_status,
    entry_of,
    find_campaign,
    is_in_state,
    load_repeats,
    lock_campaign,
)
from mailwright.sources.campaigns.repeat_records import end_repeat
from mailwright.sources.campaigns.resend import AlreadyResent, find_resent
from mailwright.sources.campaigns.review import require_reviewed, review_extension, review_started
from mailwright.sources.campaigns.snapshot import FrozenCampaign, freeze
from mailwright.sources.campaigns.test_send import CampaignTestSend, build_test_messages
from mailwright.sources.campaigns.unapproved_sends import UnapprovedSend, add_unapproved
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.sources.own_drafts import require_own_draft
from mailwright.sources.sender_rules import NO_SENDER_RULES, SenderRules, SenderRulesDecision
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import campaigns, queue_entries


class Campaigns:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        templates: TemplateStore,
        rules: SenderRules = NO_SENDER_RULES,
        rails: GuardRails = DEFAULT_GUARD_RAILS,
    ) -> None:
        self._database = database
        self._clock = clock
        self._templates = templates
        self._changes = CampaignChanges(clock)
        self.rules = rules
        self.rails = rails

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
        async with self._database.write() as tx:
            return await create_draft(
                tx, self._clock, actor, tenant_id, definition, attachments=attachments, copy_of=copy_of
            )

    async def find(self, campaign_id: str, *, tenant_id: int | None) -> Campaign:
        async with self._database.read() as tx:
            return await find_campaign(tx, campaign_id, tenant_id)

    async def list_page(
        self,
        *,
        tenant_id: int | None,
        limit: int,
        before: int = 2**63 - 1,
        state: RecordState = RecordState.ACTIVE,
    ) -> list[Campaign]:
        """Return a page of campaigns, newest first."""
        query = select(campaigns).where(campaigns.c.id < before, is_in_state(state))
        if tenant_id is not None:
            query = query.where(campaigns.c.tenant_id == tenant_id)
        async with self._database.read() as tx:
            rows = await tx.execute(query.order_by(campaigns.c.id.desc()).limit(limit))
            repeats = await load_repeats(tx, [row.id for row in rows])
        return [replace(campaign_of_row(row), repeat=repeats.get(row.id)) for row in rows]

    async def edit(
        self, actor: Actor, campaign_id: str, definition: CampaignDefinition, *, must_be_own: bool = False
    ) -> Campaign:
        """Replace a draft. With `must_be_own`, refuse unless this actor created it and nobody else has changed it."""
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.EDIT)
            if must_be_own:
                await require_own_draft(
                    tx, campaign.tenant_id, campaign.campaign_id, actor.name, allowed=DECISION_ENTRIES
                )
            definition = _with_same_original(definition, campaign.definition)
            changes = {
                "name": definition.name,
                "definition": as_text(definition),
                "scheduled_at": definition.scheduled_at,
            }
            await self._changes.edit(tx, actor, campaign, **changes)
            await self._changes.record(tx, actor, CampaignAction.EDIT, campaign)
            return await find_campaign(tx, campaign_id, actor.tenant_id)

    async def duplicate(self, actor: Actor, campaign_id: str, name: str | None = None) -> Campaign:
        """Create a draft with the same content, attachments and lists. A copy of a resend is no resend."""
        original = await self.find(campaign_id, tenant_id=actor.tenant_id)
        changes = {"name": name or f"{original.name} (copy)", "scheduled_at": None, "resend_of": None}
        copy = original.definition.model_copy(update=changes)
        return await self.create(actor, original.tenant_id, copy, copy_of=original)

    async def attach(self, actor: Actor, campaign_id: str, added: Sequence[EmailAttachment]) -> Campaign:
        """Add files to a draft. Every message of the campaign will carry them."""
        now = self._clock.now()
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.ATTACH)
            await insert_attachments(tx, campaign.tenant_id, campaign.key, added, now)
            await self._changes.edit(tx, actor, campaign)
            files = [each.filename for each in added]
            await self._changes.record(tx, actor, CampaignAction.ATTACH, campaign, files=files)
            return await find_campaign(tx, campaign_id, actor.tenant_id)

    async def detach(self, actor: Actor, campaign_id: str, attachment_id: str) -> Campaign:
        """Remove a file from a draft, and delete its content."""
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.DETACH)
            removed = await delete_attachment(tx, campaign.key, attachment_id)
            await self._changes.edit(tx, actor, campaign)
            await self._changes.record(tx, actor, CampaignAction.DETACH, campaign, files=[removed.filename])
            return await find_campaign(tx, campaign_id, actor.tenant_id)

    async def start(
        self,
        actor: Actor,
        campaign_id: str,
        *,
        overrides_rules: bool = False,
        send_now: bool = False,
        send_at: Instant | None = None,
        reviewed: str | None = None,
        content_digest: str | None = None,
    ) -> Campaign:
        """Freeze the content and join the queue, or raise an error with all problems at once and change nothing.

        If `content_digest` is given, a campaign with other content does not start.
        """
        facts = PresendContext(postal_address=self.rules.postal_address)
        started, _ = await self.start_with_warnings(
            actor,
            campaign_id,
            facts,
            overrides_rules=overrides_rules,
            send_now=send_now,
            send_at=send_at,
            reviewed=reviewed,
            content_digest=content_digest,
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
        reviewed: str | None = None,
        content_digest: str | None = None,
    ) -> tuple[Campaign, tuple[PresendIssue, ...]]:
        """Start the campaign, and return the warnings of the pre-send checks.

        `send_now` drops its send time, and `send_at` replaces it. `overrides_rules` sends even if the rules of
        the large mailbox providers are not met. The audit log records this. `reviewed` has the digests that a user has
        reviewed. A campaign that was changed since then does not start.
        """
        now, draft = self._clock.now(), await self.find(campaign_id, tenant_id=actor.tenant_id)
        check_status(draft, CampaignAction.START)
        definition = with_send_time(draft.definition, send_now=send_now, send_at=send_at)
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
            reviewed=None if reviewed is None else (reviewed, draft.definition),
            content_digest=content_digest,
        )
        async with recording_void(self._database, self._clock), self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.START)
            await _require_approval(tx, draft, campaign, frozen, now, actor=actor)
            await find_resent(tx, campaign.tenant_id, definition, now)  # The original may have been extended.
            if definition.scheduled_at != draft.definition.scheduled_at:
                await self._changes.set_send_time(tx, actor, campaign, definition.scheduled_at)
            lane = await _insert_entry(tx, campaign, frozen, now)
            noted = _noted_exemption(definition)
            if definition.scheduled_at is not None and definition.scheduled_at > now:
                await defer.record_lane_deferral(tx, lane, SCHEDULED, definition.scheduled_at)
                noted["scheduledAt"] = definition.scheduled_at
            started = {"status": CampaignStatus.READY, "started_at": now, "archived_at": None}
            await self._changes.change(tx, campaign, **started, messages_after_key=await newest_message_key(tx))
            await self._changes.record(tx, actor, CampaignAction.START, campaign, planned=frozen.planned, **noted)
            if overrides_rules:
                unmet = list(frozen.unmet_rules)
                await self._changes.record(tx, actor, CampaignAction.OVERRIDE_RULES, campaign, unmet=unmet)
            await end_repeat(tx, self._changes, actor, campaign, because="the draft was started")
            await announce(tx, announced(campaign), EventType.CAMPAIGN_STARTED, now)
            return await find_campaign(tx, campaign_id, actor.tenant_id), frozen.warnings

    async def reschedule(
        self, actor: Actor, campaign_id: str, scheduled_at: Instant | None, *, reviewed: str | None = None
    ) -> Campaign:
        """Change the send time of a campaign that has not begun to send. None means now."""
        now = self._clock.now()
        if scheduled_at is not None and is_past(scheduled_at, now):
            raise InvalidInput("the send time is in the past; {advice}", advice=SEND_NOW_ADVICE, field="scheduledAt")
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.RESCHEDULE)
            if reviewed is not None:
                require_reviewed(reviewed, review_started(campaign))
            if campaign.status is not CampaignStatus.DRAFT:
                entry = await entry_of(tx, campaign)
                if entry.recipients or entry.processed:
                    raise NotPossibleNow("The campaign has already begun to send, so its send time cannot change.")
                if campaign.status is CampaignStatus.READY:
                    await _defer_until_schedule(tx, entry, scheduled_at, now)
            await self._changes.set_send_time(tx, actor, campaign, scheduled_at)
            return await find_campaign(tx, campaign_id, actor.tenant_id)

    async def move(self, actor: Actor, campaign_id: str, position: int) -> tuple[Campaign, int]:
        """Move the campaign to a position in its tenant's queue, counted from 1. Return its new position."""
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.MOVE)
            before = await _open_entries(tx, campaign.tenant_id)
            if all(row.campaign_key != campaign.key for row in before):
                raise NotPossibleNow("The campaign is not in the queue: all its messages are processed.")
            after = [row for row in before if row.campaign_key != campaign.key]
            index = min(max(position, 1) - 1, len(after))
            after.insert(index, next(row for row in before if row.campaign_key == campaign.key))
            for place, row in zip([row.place for row in before], after, strict=True):
                if row.place != place:
                    await update_entry(tx, row.campaign_key, position=place)
            await self._changes.record(tx, actor, CampaignAction.MOVE, campaign, position=index + 1)
            return campaign, index + 1

    async def pause(self, actor: Actor, campaign_id: str) -> Campaign:
        """Stop sending. Only messages that a provider is receiving now are still sent. The position is kept."""
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.PAUSE)
            entry = await entry_of(tx, campaign)
            if campaign.status is CampaignStatus.SENDING and await has_nothing_to_send(tx, entry):
                raise NotPossibleNow("Nothing is left to send, so there is nothing to pause.")
            await defer.record_lane_deferral(tx, entry.lane, PAUSED, INDEFINITELY)
            await announce_hold(tx, announced(campaign), PAUSED, self._clock.now())
            return await self._changes.move_to(tx, actor, CampaignAction.PAUSE, campaign, CampaignStatus.PAUSED)

    async def resume(self, actor: Actor, campaign_id: str, *, reviewed: str | None = None) -> Campaign:
        now = self._clock.now()
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.RESUME)
            if reviewed is not None:
                require_reviewed(reviewed, review_started(campaign))
            entry = await entry_of(tx, campaign)
            if await is_stopped(tx, entry.lane):
                await accept_incidents(tx, entry, self.rails, now)
            await defer.end_lane_deferral(tx, entry.lane)
            begins_at = campaign.definition.scheduled_at
            is_early = begins_at is not None and begins_at > now
            if is_early and begins_at is not None:
                await defer.record_lane_deferral(tx, entry.lane, SCHEDULED, begins_at)
            await _defer_as_before_pause(tx, entry, now)
            await announce(tx, announced(campaign), EventType.CAMPAIGN_RESUMED, now)
            status = CampaignStatus.READY if is_early else CampaignStatus.SENDING
            return await self._changes.move_to(tx, actor, CampaignAction.RESUME, campaign, status)

    async def cancel(self, actor: Actor, campaign_id: str) -> Campaign:
        """Stop sending permanently. Messages that were sent stay in the report."""
        now = self._clock.now()
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.CANCEL)
            if campaign.status is not CampaignStatus.DRAFT:
                await defer.record_lane_deferral(tx, (await entry_of(tx, campaign)).lane, CANCELLED, INDEFINITELY)
                # Reopen the entry, so that the scheduler cancels the messages that still wait.
                await update_entry(tx, campaign.key, enqueue_ended_at=now, **REOPENED)
                await announce(tx, announced(campaign), EventType.CAMPAIGN_CANCELLED, now)
            await end_repeat(tx, self._changes, actor, campaign, because="the draft was cancelled")
            return await self._changes.move_to(
                tx, actor, CampaignAction.CANCEL, campaign, CampaignStatus.CANCELLED, finished_at=now
            )

    async def edit_limits(self, actor: Actor, campaign_id: str, limits: CampaignLimits) -> Campaign:
        """Change the limits, also during sending. They take effect within one batch."""
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.EDIT_LIMITS)
            definition = campaign.definition.model_copy(update={"limits": limits})
            await self._changes.edit(tx, actor, campaign, definition=as_text(definition))
            await update_entry(tx, campaign.key, limits=limits.model_dump_json(by_alias=False))
            if campaign.status is not CampaignStatus.DRAFT:
                lane = (await entry_of(tx, campaign)).lane
                await defer.end_cap_deferrals(tx, lane, lane)
            if campaign.status in (CampaignStatus.READY, CampaignStatus.SENDING):
                # An old limit may have deferred the campaign. If a new limit applies, the next claim defers it again.
                kept = (SCHEDULED, SCHEDULE_OVERDUE, AWAITING_WINNER, UNDECIDED, GUARD_RAILS, NEXT_WAVE)
                await defer.end_lane_deferral(tx, (await entry_of(tx, campaign)).lane, but=(*kept, AWAITS_APPROVAL))
            changed = limits.model_dump(mode="json", exclude_defaults=True)
            await self._changes.record(tx, actor, CampaignAction.EDIT_LIMITS, campaign, limits=changed)
            return replace(campaign, definition=definition)

    async def choose_winner(
        self, actor: Actor, campaign_id: str, version: str, *, reviewed: str | None = None
    ) -> Campaign:
        """Choose the winner of the A/B test, instead of letting its results decide."""
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.CHOOSE_WINNER)
            if reviewed is not None:
                require_reviewed(reviewed, review_started(campaign))
            entry = await entry_of(tx, campaign)
            if entry.enqueue_ended_at is None:
                raise NotPossibleNow("The messages of the test group are still being created. Try again in a moment.")
            await decide_winner(tx, entry, self._clock.now(), actor=actor.name, name=version)
            return campaign

    async def extend(
        self, actor: Actor, campaign_id: str, *, segment: str | None = None, reviewed: str | None = None
    ) -> tuple[Campaign, int]:
        """Send also to new subscribers, and to another segment if given. Nobody gets the campaign twice."""
        now = self._clock.now()
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.EXTEND)
            entry, added = await extended_audience(tx, campaign, segment, now)
            if await has_deleted_messages(tx, entry.tenant_id, entry.lane):
                raise NotPossibleNow(
                    "Retention has deleted messages of the campaign, so nobody knows who received it. "
                    "Duplicate the campaign and choose its audience."
                )
            if reviewed is not None:
                require_reviewed(reviewed, review_extension(campaign, entry.content.filter))
            planned = entry.recipients + added
            gate = await load_gate(tx, campaign.tenant_id, campaign.key)
            if not gate.is_open:
                gate.require(await digests_of(tx, entry, entry.content.filter), planned)
            await update_entry(tx, campaign.key, content=entry.content.as_text(), planned=planned, **ENQUEUE_AGAIN)
            await self._changes.change(tx, campaign, status=CampaignStatus.SENDING, finished_at=None)
            await announce(tx, announced(campaign), EventType.CAMPAIGN_RESUMED, now)
            await self._changes.record(tx, actor, CampaignAction.EXTEND, campaign, planned=added, segment=segment)
            return await find_campaign(tx, campaign_id, actor.tenant_id), added

    async def override_rules(self, actor: Actor, campaign_id: str) -> Campaign:
        """Send even if the rules of the large mailbox providers are not met. The audit log records who decided this."""
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.OVERRIDE_RULES)
            entry = await entry_of(tx, campaign)
            content = replace(entry.content, sender_rules=SenderRulesDecision.OVERRIDDEN)
            await update_entry(tx, campaign.key, content=content.as_text())
            await defer.end_lane_deferral(
                tx, entry.lane, but=(PAUSED, SCHEDULED, AWAITING_WINNER, GUARD_RAILS, NEXT_WAVE, AWAITS_APPROVAL)
            )
            await self._changes.record(tx, actor, CampaignAction.OVERRIDE_RULES, campaign)
            return campaign

    async def test_send(
        self, actor: Actor, campaign_id: str, addresses: Sequence[str], *, as_contact: str | None = None
    ) -> list[Accepted]:
        """Send each variant to each address, outside the campaign's counts.

        `as_contact` is the address of the contact whose name and attributes fill the email. Without it, sample values
        fill it.
        """
        campaign = await self.find(campaign_id, tenant_id=actor.tenant_id)
        if problems := await check_sender_domain(self.rules, campaign.tenant_id, campaign.definition):
            raise CampaignNotStartable(problems)
        now = self._clock.now()
        attached = tuple(each.attachment_id for each in campaign.attachments)
        test = CampaignTestSend(campaign_id, campaign.tenant_id, campaign.definition, addresses, as_contact, attached)
        messages = await build_test_messages(self._database, self._templates, test, now)
        async with self._database.write() as tx:
            accepted = await accept(tx, messages, now)
            await self._changes.record(tx, actor, CampaignAction.TEST, campaign, mails=len(messages))
        return accepted


def with_send_time(
    definition: CampaignDefinition, *, send_now: bool = False, send_at: Instant | None = None
) -> CampaignDefinition:
    """Return the definition without its send time (`send_now`), with `send_at` instead, or unchanged."""
    if not send_now and send_at is None:
        return definition
    return definition.model_copy(update={"scheduled_at": None if send_now else send_at})


async def create_draft(
    tx: Transaction,
    clock: Clock,
    actor: Actor,
    tenant_id: int,
    definition: CampaignDefinition,
    *,
    attachments: Sequence[EmailAttachment] = (),
    copy_of: Campaign | None = None,
    is_repeat: bool = False,
) -> Campaign:
    """Create a draft in the caller's transaction, with new attachments or with those of another campaign.

    `is_repeat`: the schedule of that campaign creates it.
    """
    now = clock.now()
    repeat_of = copy_of.campaign_id if is_repeat and copy_of is not None else None
    campaign = await _insert_draft(tx, actor, tenant_id, definition, now=now, repeat_of=repeat_of)
    await insert_attachments(tx, tenant_id, campaign.key, attachments, now)
    if copy_of is not None:
        await copy_attachments(tx, copy_of.key, campaign.key, now)
    await CampaignChanges(clock).record(tx, actor, "create", campaign)
    return replace(campaign, attachments=await list_attachments(tx, campaign.key))


async def _insert_draft(
    tx: Transaction,
    actor: Actor,
    tenant_id: int,
    definition: CampaignDefinition,
    *,
    now: Instant,
    repeat_of: str | None,
) -> Campaign:
    values = {
        "campaign_id": uuid7(now),
        "tenant_id": tenant_id,
        "name": definition.name,
        "status": CampaignStatus.DRAFT,
        "definition": as_text(definition),
        "scheduled_at": definition.scheduled_at,
        "created_at": now,
        "updated_at": now,
        "changed_by": actor.name,
        "resend_of": await find_resent(tx, tenant_id, definition, now),
        "repeat_of": repeat_of,
    }
    try:
        rows = await tx.execute(insert(campaigns).values(**values).returning(campaigns))
    except IntegrityError as error:  # A unique index allows one campaign for each original.
        raise AlreadyResent from error
    return campaign_of_row(rows[0])


def _with_same_original(definition: CampaignDefinition, saved: CampaignDefinition) -> CampaignDefinition:
    """Keep the reference to the campaign that a draft sends again, because the audience depends on it."""
    if definition.resend_of not in (None, saved.resend_of):
        raise InvalidInput("cannot be changed; send that campaign again instead", field="resendOf")
    return definition.model_copy(update={"resend_of": saved.resend_of})


async def _require_approval(
    tx: Transaction, draft: Campaign, campaign: Campaign, frozen: FrozenCampaign, now: Instant, *, actor: Actor
) -> None:
    """Raise if the draft was edited during its start, or if a second person must approve it first.

    The audience is counted again, because it may have grown. Other sends that the actor has started without an approval
    count too.
    """
    if (campaign.definition, campaign.attachments) != (draft.definition, draft.attachments):
        raise NotPossibleNow("The campaign was edited during its start. Start it again.")
    gate = await load_gate(tx, campaign.tenant_id, campaign.key)
    if gate.is_open:
        return
    recipients = await count_members(tx, campaign.tenant_id, frozen.content, now)
    gate.require(frozen.digests, recipients)
    if gate.over is None or gate.approval is not None:
        return
    send = UnapprovedSend(campaign.tenant_id, "campaign", campaign.campaign_id, recipients)
    earlier = await add_unapproved(tx, now, send, over=gate.over, actor=actor.name)
    if earlier + recipients > gate.over:
        raise AwaitsApproval(
            "The campaign has {recipients} recipients, and a second person must approve sends to more than {over}. "
            "The same person has reached {earlier} without an approval in the last 24 hours. Request approval."
            if earlier
            else "The campaign has {recipients} recipients, and a second person must approve sends to more than {over}."
            " Request approval.",
            recipients=lazy_number(recipients),
            over=lazy_number(gate.over),
            earlier=lazy_number(earlier),
        )


async def _insert_entry(tx: Transaction, campaign: Campaign, frozen: FrozenCampaign, now: Instant) -> int:
    """Add the campaign to the queue, and return its lane."""
    rows = await tx.execute(
        insert(queue_entries)
        .values(
            campaign_key=campaign.key,
            tenant_id=campaign.tenant_id,
            lane=0,
            content=frozen.content.as_text(),
            digests=frozen.digests,
            limits=campaign.definition.limits.model_dump_json(by_alias=False),
            planned=frozen.planned,
            processed=0,
            recipients=0,
            enqueued_to="",
            created_at=now,
            wave=1 if campaign.definition.waves is not None else None,
        )
        .returning(queue_entries.c.id)
    )
    entry_id = int(rows[0].id)
    lane = lane_number(Priority.BULK, campaign.tenant_id, entry_id)
    await tx.execute(update(queue_entries).where(queue_entries.c.id == entry_id).values(lane=lane))
    return lane


def _noted_exemption(definition: CampaignDefinition) -> dict[str, Any]:
    """Return the details for the audit log of a campaign that ignores the frequency cap."""
    exempt = definition.limits.ignore_frequency_cap
    return {} if exempt is None else {"ignoreFrequencyCap": exempt}


async def _open_entries(tx: Transaction, tenant_id: int) -> Sequence[Any]:
    """Return the tenant's queue in order, and lock it against concurrent moves."""
    is_open = (queue_entries.c.tenant_id == tenant_id) & queue_entries.c.completed_at.is_(None)
    query = select(queue_entries.c.campaign_key, QUEUE_ORDER.label("place")).where(is_open).order_by(QUEUE_ORDER)
    return await tx.execute(query.with_for_update())


async def _defer_as_before_pause(tx: Transaction, entry: QueueEntry, now: Instant) -> None:
    """Let a resumed campaign wait again for the winner of its A/B test or for its next wave."""
    ab_test, waves = entry.content.ab_test, entry.content.waves
    if ab_test is not None and ab_test.is_undecided:
        await defer.record_lane_deferral(tx, entry.lane, UNDECIDED, INDEFINITELY)
    elif ab_test is not None and ab_test.decides_at is not None and ab_test.decides_at > now:
        await defer.record_lane_deferral(tx, entry.lane, AWAITING_WINNER, ab_test.decides_at)
    elif entry.wave is not None and waves is not None and waves.opens_at is not None and waves.opens_at > now:
        await defer.record_lane_deferral(tx, entry.lane, NEXT_WAVE, waves.opens_at)


async def _defer_until_schedule(tx: Transaction, entry: QueueEntry, scheduled_at: Instant | None, now: Instant) -> None:
    await defer.end_lane_deferral(tx, entry.lane)
    if scheduled_at is not None and scheduled_at > now:
        await defer.record_lane_deferral(tx, entry.lane, SCHEDULED, scheduled_at)
