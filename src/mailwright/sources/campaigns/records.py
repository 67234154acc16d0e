"""Rows of campaigns: find and lock them, and change them with an entry in the audit log."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, assert_never

import orjson
from sqlalchemy import ColumnElement, select, update

from mailwright.domain.campaign import ALLOWED_STATUSES, CampaignAction, CampaignStatus
from mailwright.domain.clock import Clock, Instant, isoformat
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.domain.ids import is_uuid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.record_state import RecordState
from mailwright.domain.translation import gettext
from mailwright.outbox import audit_log
from mailwright.sources.campaigns.announce import AnnouncedCampaign
from mailwright.sources.campaigns.approval_records import void_if_changed
from mailwright.sources.campaigns.attachments import CampaignAttachment, list_attachments
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.campaigns.entries import QueueEntry, find_entry
from mailwright.storage.database import Transaction
from mailwright.storage.tables import campaign_repeats, campaigns

# Actions of other users that do not change the content, so that the draft still counts as its author's.
_DECISIONS = (CampaignAction.APPROVE, CampaignAction.REJECT, CampaignAction.WITHDRAW_REQUEST)
DECISION_ENTRIES: Final = tuple(f"campaign.{action}" for action in _DECISIONS)


class RepeatSummary(NamedTuple):
    """The next time of a recurring draft, and its last result."""

    next_at: Instant | None  # None while it is paused.
    failed_at: Instant | None
    last_result: str | None


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
    archived_at: Instant | None = None
    deleted_at: Instant | None = None
    changed_by: str | None = None  # who last changed its content, audience or send time
    repeat_of: str | None = None  # the ID of the draft whose schedule created it
    repeat: RepeatSummary | None = None  # of a draft that repeats
    attachments: tuple[CampaignAttachment, ...] = ()  # empty in lists of campaigns

    @property
    def name(self) -> str:
        return self.definition.name


@dataclass(frozen=True, slots=True)
class Actor:
    """The user who acts, and their tenant. None stands for an operator on the console, who may act for all tenants."""

    name: str
    tenant_id: int | None


class CampaignChanges:
    """Changes a campaign and records who did it, in the transaction of the caller."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def move_to(
        self,
        tx: Transaction,
        actor: Actor,
        action: CampaignAction,
        campaign: Campaign,
        status: CampaignStatus,
        **changes: Any,
    ) -> Campaign:
        await self.change(tx, campaign, status=status, **changes)
        await self.record(tx, actor, action, campaign, before=campaign.status, after=status)
        return await find_campaign(tx, campaign.campaign_id, None)

    async def set_send_time(
        self, tx: Transaction, actor: Actor, campaign: Campaign, scheduled_at: Instant | None
    ) -> None:
        definition = campaign.definition.model_copy(update={"scheduled_at": scheduled_at})
        await self.edit(tx, actor, campaign, definition=as_text(definition), scheduled_at=scheduled_at)
        before, after = isoformat(campaign.definition.scheduled_at), isoformat(scheduled_at)
        # Without a send time, a scheduled campaign is sent at once. A draft and a paused campaign wait.
        is_sent = scheduled_at is None and campaign.status is CampaignStatus.READY
        action = CampaignAction.SEND_NOW if is_sent else CampaignAction.RESCHEDULE
        await self.record(tx, actor, action, campaign, before=before, after=after)

    async def edit(self, tx: Transaction, actor: Actor, campaign: Campaign, **changes: Any) -> None:
        """Change the content, the audience or the send time of a campaign. A change makes its approval void."""
        await self.change(tx, campaign, changed_by=actor.name, **changes)
        await void_if_changed(tx, campaign.key, self._clock.now(), actor=actor.name)

    async def change(self, tx: Transaction, campaign: Campaign, **changes: Any) -> None:
        changes["updated_at"] = self._clock.now()
        await tx.execute(update(campaigns).where(campaigns.c.id == campaign.key).values(**changes))

    async def record(self, tx: Transaction, actor: Actor, action: str, campaign: Campaign, **detail: Any) -> None:
        await audit_log.record(
            tx,
            self._clock.now(),
            actor=actor.name,
            action=f"campaign.{action}",
            subject=campaign.campaign_id,
            tenant_id=campaign.tenant_id,
            detail={"name": campaign.name, **detail},
        )


async def lock_campaign(tx: Transaction, actor: Actor, campaign_id: str, action: CampaignAction) -> Campaign:
    campaign = await find_campaign(tx, campaign_id, actor.tenant_id, to_change=True)
    check_status(campaign, action)
    return campaign


def check_status(campaign: Campaign, action: CampaignAction) -> None:
    if campaign.status not in ALLOWED_STATUSES[action]:
        *others, last = (status for status in CampaignStatus if status in ALLOWED_STATUSES[action])
        allowed = gettext("{others} or {last}", others=", ".join(others), last=last) if others else last
        raise NotPossibleNow(
            "The campaign is {status}. This is possible only while it is {allowed}.",
            status=campaign.status,
            allowed=allowed,
        )


async def find_campaign(
    tx: Transaction, campaign_id: str, tenant_id: int | None, *, to_change: bool = False, with_deleted: bool = False
) -> Campaign:
    """Return a campaign. A deleted one is found only `with_deleted`."""
    if not is_uuid(campaign_id):
        raise NotFound
    query = select(campaigns).where(campaigns.c.campaign_id == campaign_id)
    if tenant_id is not None:
        query = query.where(campaigns.c.tenant_id == tenant_id)
    if not with_deleted:
        query = query.where(campaigns.c.deleted_at.is_(None))
    rows = await tx.execute(query.with_for_update() if to_change else query)
    if not rows:
        raise NotFound
    key = rows[0].id
    repeats = await load_repeats(tx, [key])
    return replace(campaign_of_row(rows[0]), attachments=await list_attachments(tx, key), repeat=repeats.get(key))


async def load_repeats(tx: Transaction, campaign_keys: Collection[int]) -> Mapping[int, RepeatSummary]:
    """Return the schedules of the campaigns that repeat, by the keys of the campaigns."""
    r = campaign_repeats.c
    rows = await tx.execute(select(campaign_repeats).where(r.campaign_key.in_(campaign_keys)))
    return {row.campaign_key: summary_of_row(row) for row in rows}


def summary_of_row(row: Any) -> RepeatSummary:
    return RepeatSummary(None if row.paused_at is not None else row.next_at, row.failed_at, row.last_result)


def is_in_state(state: RecordState) -> ColumnElement[bool]:
    """Match the campaigns that a list of this state shows."""
    archived, deleted = campaigns.c.archived_at, campaigns.c.deleted_at
    match state:
        case RecordState.ACTIVE:
            return archived.is_(None) & deleted.is_(None)
        case RecordState.ARCHIVED:
            return archived.is_not(None) & deleted.is_(None)
        case RecordState.DELETED:
            return deleted.is_not(None)
    assert_never(state)


async def entry_of(tx: Transaction, campaign: Campaign) -> QueueEntry:
    entry = await find_entry(tx, campaign.key)
    if entry is None:
        raise NotFound
    return entry


def announced(campaign: Campaign) -> AnnouncedCampaign:
    return AnnouncedCampaign(campaign.key, campaign.campaign_id, campaign.name, campaign.tenant_id)


def as_text(definition: CampaignDefinition) -> str:
    return definition.model_dump_json(by_alias=True, exclude_none=True)


def campaign_of_row(row: Any) -> Campaign:
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
        archived_at=row.archived_at,
        deleted_at=row.deleted_at,
        changed_by=row.changed_by,
        repeat_of=row.repeat_of,
    )
