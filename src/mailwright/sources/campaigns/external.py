"""Campaigns whose content and recipients come from another source, such as mailouts. They share the campaign queue.

They have no audience to enqueue: each starts as a campaign that is already enqueued, and stays READY until its source
has added the last recipient. The scheduler does not complete a READY campaign.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import insert, update

from mailwright.audience.status import find_erased
from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.clock import Instant
from mailwright.domain.ids import uuid7s
from mailwright.domain.lanes import lane_number
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Source
from mailwright.domain.states import EventType, Priority
from mailwright.outbox.accept import ExternalMessage, accept_external, count_accepted, insert_contacts
from mailwright.outbox.queue_states import REOPENED
from mailwright.outbox.search import newest_message_key
from mailwright.sources.campaigns.announce import AnnouncedCampaign, announce
from mailwright.sources.campaigns.definition import CampaignDefinition, CampaignLimits, ContentDefinition
from mailwright.sources.campaigns.entries import NO_LIST, CampaignSnapshot, CampaignVariant, find_entry, update_entry
from mailwright.storage.database import Transaction
from mailwright.storage.tables import campaigns, queue_entries


@dataclass(frozen=True, slots=True)
class ExternalCampaign:
    """A campaign of another source. Every recipient gets the stored version of its template."""

    campaign_id: str
    tenant_id: int
    name: str
    subject: str
    template_id: str
    template_key: int
    planned: int
    limits: CampaignLimits


@dataclass(frozen=True, slots=True)
class ExternalRecipient:
    """A recipient. `payload` holds the values that differ between recipients, for example the From name."""

    email: str  # in normal form
    payload: dict[str, Any]


async def enqueue_external(tx: Transaction, campaign: ExternalCampaign, now: Instant) -> int:
    """Add the campaign to the queue. Return its key."""
    definition = CampaignDefinition(
        name=campaign.name, content=ContentDefinition(template_id=campaign.template_id), limits=campaign.limits
    )
    variant = CampaignVariant("", campaign.subject, {"": campaign.template_key}, 100)
    rows = await tx.execute(
        insert(campaigns)
        .values(
            campaign_id=campaign.campaign_id,
            tenant_id=campaign.tenant_id,
            name=campaign.name,
            status=CampaignStatus.READY,
            definition=definition.model_dump_json(by_alias=True, exclude_none=True),
            created_at=now,
            updated_at=now,
            started_at=now,
            messages_after_key=await newest_message_key(tx),
        )
        .returning(campaigns.c.id)
    )
    key = int(rows[0].id)
    rows = await tx.execute(
        insert(queue_entries)
        .values(
            campaign_key=key,
            tenant_id=campaign.tenant_id,
            lane=0,
            content=CampaignSnapshot((variant,), {"campaign": campaign.campaign_id}, (NO_LIST,), None).as_text(),
            limits=campaign.limits.model_dump_json(by_alias=False),
            planned=campaign.planned,
            processed=0,
            recipients=0,
            enqueued_to="",
            enqueue_ended_at=now,
            created_at=now,
        )
        .returning(queue_entries.c.id)
    )
    lane = lane_number(Priority.BULK, campaign.tenant_id, int(rows[0].id))
    await update_entry(tx, key, lane=lane)
    announced = AnnouncedCampaign(key, campaign.campaign_id, campaign.name, campaign.tenant_id)
    await announce(tx, announced, EventType.CAMPAIGN_STARTED, now)
    return key


async def add_recipients(
    tx: Transaction, source: Source, campaign_key: int, recipients: Sequence[ExternalRecipient], now: Instant
) -> bool:
    """Create a message for each recipient, in this order. Return False if the campaign was cancelled.

    Unknown recipients become contacts. Erased contacts are skipped.
    """
    entry = await find_entry(tx, campaign_key, to_change=True)
    if entry is None or entry.campaign_status is CampaignStatus.CANCELLED:
        return False
    erased = await find_erased(tx, {(entry.tenant_id, each.email) for each in recipients})
    recipients = [each for each in recipients if (entry.tenant_id, each.email) not in erased]
    ids = uuid7s(now, 2 * len(recipients))
    new_contacts = [
        {"contact_id": contact_id, "tenant_id": entry.tenant_id, "email": each.email, "name": None}
        for contact_id, each in zip(ids, recipients, strict=False)
    ]
    await insert_contacts(tx, new_contacts, now)
    [variant] = entry.content.variants
    stored = await accept_external(
        tx,
        [
            ExternalMessage(outbox_id, each.email, {**entry.content.payload, **each.payload})
            for outbox_id, each in zip(ids[len(recipients) :], recipients, strict=True)
        ],
        source=source,
        tenant_id=entry.tenant_id,
        campaign_key=campaign_key,
        campaign_id=entry.campaign_id,
        subject=variant.subject,
        template_key=variant.templates[""],
        lane=entry.lane,
        now=now,
    )
    if stored:
        counts = {"processed": entry.processed + stored, "recipients": entry.recipients + stored}
        await update_entry(tx, campaign_key, **counts, enqueued_to=recipients[-1].email)
        count_accepted(source, stored)
    return True


async def close_recipients(tx: Transaction, campaign_key: int, now: Instant) -> None:
    """Mark the recipients as complete, so that the campaign ends with its last message."""
    entry = await find_entry(tx, campaign_key, to_change=True)
    if entry is None:
        return
    if entry.campaign_status in (CampaignStatus.READY, CampaignStatus.SENT):
        # It is SENT if a user paused and resumed it when all messages so far were sent.
        sending = {"status": CampaignStatus.SENDING, "updated_at": now, "finished_at": None}
        await tx.execute(update(campaigns).where(campaigns.c.id == campaign_key).values(**sending))
    if entry.campaign_status is not CampaignStatus.CANCELLED:
        await update_entry(tx, campaign_key, planned=entry.recipients, **REOPENED)
